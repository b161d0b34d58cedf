#include "cc/core/search/means.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cc/core/search/gap_eviction.h"
#include "cc/core/simulate/liveness.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

// All activations of the chain's forward half are read again in its backward half.
const MemGraph& Graph() {
  static const auto* const graph = new MemGraph(testing::Chain(20, 4096));
  return *graph;
}

int64_t HalfOf(const PlanState& state) { return state.bytes().Max() / 2; }

TEST(MeansTest, EachHasANameOfItsOwn) {
  PlanState state(Graph(), true, SwapLink());
  std::set<std::string> names;
  for (const MeansMaker& make : AllMeans()) names.insert(make(&state, SwapRules())->name());
  EXPECT_EQ(names, (std::set<std::string>{"recompute", "swap"}));
}

TEST(MeansTest, WithoutALinkNothingIsSwapped) {
  PlanState state(Graph(), true, SwapLink());
  for (const MeansMaker& make : AllMeans()) {
    const std::unique_ptr<Means> means = make(&state, SwapRules());
    bool any = false;
    for (size_t b = 0; b < Graph().buffers.size(); ++b) any |= means->Serves(static_cast<BufferId>(b));
    EXPECT_EQ(any, std::string(means->name()) == "recompute");
  }
}

TEST(MeansTest, WithoutMeansNothingIsDone) {
  PlanState state(Graph(), true, SwapLink());
  EXPECT_FALSE(GapEviction(&state, HalfOf(state), nullptr, {}, {}).Run(EvictionRule()));
  EXPECT_TRUE(state.ToPlan().empty());
}

// Computes again what one op makes, from inputs that are kept: a trivial means, as a new one would be added.
class OneOpAgain : public Means {
 public:
  OneOpAgain(PlanState* state, int* offered) : state_(*state), offered_(*offered) {}

  const char* name() const override { return "one op again"; }
  bool Serves(BufferId buffer) const override { return state_.graph().buffers[buffer].evictable; }
  void AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) override {
    const MemBuffer& buffer = state_.graph().buffers[gap.buffer];
    Gap again = gap;
    again.score = ScoreOf(state_.graph().ops[buffer.producer].cost_us + kNodeCostUs,
                          excess.Gain(buffer.bytes, gap.opens + 1, ClosureSlot(gap.before) - 1), run.rule);
    ++offered_;
    Offer(run, again, gaps);
  }
  bool Evict(const EvictionRun& /*run*/, const Excess& /*excess*/, const Gap& gap, bool /*anyway*/) override {
    const double before = Excess(state_.bytes().Values(), 0).Total();
    state_.Begin();
    state_.Recompute(gap.buffer, gap.before);
    state_.Commit();
    if (Excess(state_.bytes().Values(), 0).Total() < before) return true;
    state_.Undo();
    return false;
  }

 private:
  PlanState& state_;
  int& offered_;
};

TEST(MeansTest, ANewOneIsOneMoreEntry) {
  int offered = 0;
  std::vector<MeansMaker> all = AllMeans();
  all.push_back([&offered](PlanState* state, const SwapRules& /*rules*/) {
    return std::make_unique<OneOpAgain>(state, &offered);
  });
  PlanState state(Graph(), true, SwapLink());
  const int64_t limit = HalfOf(state);
  EXPECT_TRUE(GapEviction(&state, limit, nullptr, {}, all).Run(EvictionRule()));
  EXPECT_GT(offered, 0);
  EXPECT_EQ(ValidatePlan(Graph(), state.ToPlan()), "");

  // Alone, too, it lowers the peak.
  PlanState alone(Graph(), true, SwapLink());
  GapEviction(&alone, limit, nullptr, {}, {all.back()}).Run(EvictionRule());
  EXPECT_LT(Simulate(Graph(), alone.ToPlan()).peak_bytes, Simulate(Graph(), Plan()).peak_bytes);
  EXPECT_EQ(ValidatePlan(Graph(), alone.ToPlan()), "");
}

TEST(MeansTest, AGapThatGainsNothingIsNotOffered) {
  EvictionRun run;
  Gap gap;
  std::vector<Gap> gaps;
  gap.score = ScoreOf(3, 0, run.rule);
  Offer(run, gap, &gaps);
  EXPECT_TRUE(gaps.empty());
  gap.score = ScoreOf(3, 6, run.rule);
  Offer(run, gap, &gaps);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].score, 0.5);
}

TEST(ExcessTest, IsSummedOverSlots) {
  const Excess excess({1, 5, 3, 9, 2}, 3);
  EXPECT_EQ(excess.Total(), 2 + 6);
  EXPECT_EQ(excess.Count(0, 4), 2);
  EXPECT_EQ(excess.Area(2, 4), 6);
  EXPECT_EQ(excess.Area(4, 2), 0);
  EXPECT_EQ(excess.LastUpTo(2), 1);
  EXPECT_EQ(excess.LastUpTo(0), -1);
  EXPECT_EQ(excess.FirstFrom(2), 3);
  EXPECT_EQ(excess.FirstFrom(4), -1);
  EXPECT_EQ(excess.Gain(1, 0, 4), 2);
  EXPECT_EQ(excess.Gain(100, 0, 4), 8);
}

}  // namespace
}  // namespace lms
