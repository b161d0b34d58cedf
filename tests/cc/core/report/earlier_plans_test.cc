#include "cc/core/report/earlier_plans.h"

#include "gtest/gtest.h"

namespace lms {
namespace {

TEST(EarlierPlans, AllButTheOneUnderTheSameOptions) {
  EarlierPlans plans;
  EXPECT_TRUE(plans.ConstantsOf("train", 1).empty());
  plans.Note("train", 1, {{"CPU:0", 8}, {"GPU:0", 100}});
  plans.Note("train", 2, {{"GPU:0", 20}});
  plans.Note("test", 3, {{"GPU:0", 4000}});
  EXPECT_EQ(plans.ConstantsOf("train", 1), (EarlierPlans::Bytes{{"GPU:0", 20}}));
  EXPECT_EQ(plans.ConstantsOf("train", 3), (EarlierPlans::Bytes{{"CPU:0", 8}, {"GPU:0", 120}}));
  plans.Note("train", 1, {{"CPU:0", 9}});
  EXPECT_EQ(plans.ConstantsOf("train", 3), (EarlierPlans::Bytes{{"CPU:0", 9}, {"GPU:0", 20}}));
  plans.Clear();
  EXPECT_TRUE(plans.ConstantsOf("train", 3).empty());
}

}  // namespace
}  // namespace lms
