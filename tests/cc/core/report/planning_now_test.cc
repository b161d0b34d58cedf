#include "cc/core/report/planning_now.h"

#include <future>
#include <optional>
#include <thread>

#include "cc/core/report/stage_watch.h"
#include "gtest/gtest.h"

namespace lms {
namespace {

TEST(PlanningNow, TellsFunctionStageAndTime) {
  EXPECT_FALSE(PlanningMark::First());
  {
    const PlanningMark mark("train_step", 1200);
    Report report;
    StageWatch stages(Deadline(), &report);
    stages.Enter("sizes");
    const std::optional<PlanningNow> now = PlanningMark::First();
    ASSERT_TRUE(now);
    EXPECT_EQ(now->function, "train_step");
    EXPECT_EQ(now->operations, 1200);
    EXPECT_EQ(now->stage, "sizes");
    EXPECT_GE(now->seconds, 0);
  }
  EXPECT_FALSE(PlanningMark::First());
}

TEST(PlanningNow, OfSeveralTheFirstIsTold) {
  const PlanningMark outer("outer", 1);
  {
    const PlanningMark inner("inner", 2);
    PlanningMark::Enter("plan");  // of the inner one
    EXPECT_EQ(PlanningMark::First()->function, "outer");
    EXPECT_EQ(PlanningMark::First()->stage, "");
  }
  PlanningMark::Enter("verify");
  EXPECT_EQ(PlanningMark::First()->stage, "verify");
}

TEST(PlanningNow, ThreadsHaveStagesOfTheirOwn) {
  const PlanningMark mark("here", 1);
  std::promise<void> begun, end;
  std::thread other([&] {
    PlanningMark::Enter("of no mark");
    const PlanningMark there("there", 2);
    PlanningMark::Enter("plan");
    begun.set_value();
    end.get_future().wait();
  });
  begun.get_future().wait();
  EXPECT_EQ(PlanningMark::First()->function, "here");
  EXPECT_EQ(PlanningMark::First()->stage, "");
  end.set_value();
  other.join();
}

}  // namespace
}  // namespace lms
