#include "cc/tf/predict/outcomes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

class OutcomesTest : public ::testing::Test {
 protected:
  // A branch on `predicate` whose sides are chains of so many ops of 4,096 bytes, and the Merge of both.
  void AddBranch(const std::string& name, const std::string& predicate, const std::string& input, int taken,
                 int other) {
    b_.Float(name, "Switch", {input, predicate});
    std::string sides[2] = {name + ":0", name + ":1"};
    for (int side = 0; side < 2; ++side) {
      for (int i = 0; i < (side == 1 ? taken : other); ++i) {
        const std::string op = name + "_" + std::to_string(side) + "_" + std::to_string(i);
        b_.Float(op, "Exp", {sides[side]});
        sides[side] = op;
      }
    }
    b_.Float(name + "_merge", "Merge", {sides[0], sides[1]}, {testing::Int("N", 2)});
  }

  // Names of the ops that do not run, per combination.
  std::vector<std::vector<std::string>> Dead() {
    const testing::Imported step(b_.item());
    std::vector<std::vector<std::string>> names;
    for (const Outcome& outcome : FindOutcomes(step.index(), step.imported())) {
      const std::vector<bool>& dead = outcome.makes_nothing;
      names.emplace_back();
      for (size_t op = 0; op < dead.size(); ++op) {
        if (dead[op]) names.back().push_back(step.graph().ops[op].name);
      }
      std::sort(names.back().begin(), names.back().end());
    }
    return names;
  }

  void SetUp() override {
    b_.Feed("x", {1024});
    for (const char* predicate : {"p", "q"}) {
      b_.Add(predicate, "Placeholder", {}, {testing::Type("dtype", tensorflow::DT_BOOL), testing::Shape("shape", {})});
      b_.item().feed.emplace_back(predicate, tensorflow::Tensor());
    }
  }

  testing::GraphBuilder b_;
};

using Names = std::vector<std::string>;

TEST_F(OutcomesTest, WithoutBranchesAllRuns) {
  b_.Parse("y = Exp(x); fetch y");
  EXPECT_EQ(Dead(), (std::vector<Names>{{}}));
}

TEST_F(OutcomesTest, EachSideOfABranchIsTakenOnce) {
  AddBranch("a", "p", "x", /*taken=*/3, /*other=*/2);
  b_.Fetch("a_merge");
  EXPECT_EQ(Dead(), (std::vector<Names>{{"a_0_0", "a_0_1"}, {"a_1_0", "a_1_1", "a_1_2"}}));
}

TEST_F(OutcomesTest, TheSamePredicateDecidesAlike) {
  AddBranch("a", "p", "x", 2, 1);
  AddBranch("b", "p", "a_merge", 2, 1);
  b_.Fetch("b_merge");
  EXPECT_EQ(Dead(), (std::vector<Names>{{"a_0_0", "b_0_0"}, {"a_1_0", "a_1_1", "b_1_0", "b_1_1"}}));
}

TEST_F(OutcomesTest, OfOtherPredicatesTheOutcomeThatMakesMost) {
  AddBranch("a", "p", "x", 3, 2);
  AddBranch("b", "q", "a_merge", 1, 4);
  b_.Fetch("b_merge");
  const Names a0 = {"a_0_0", "a_0_1"};
  const Names a1 = {"a_1_0", "a_1_1", "a_1_2"};
  const Names b0 = {"b_0_0", "b_0_1", "b_0_2", "b_0_3"};
  const Names b1 = {"b_1_0"};
  const auto both = [](Names a, const Names& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  // With most first: b's other side (with a's taken one), a's other side, b's taken one.
  EXPECT_EQ(Dead(), (std::vector<Names>{both(a0, b1), both(a1, b1), both(a0, b0)}));
}

TEST_F(OutcomesTest, ZerosLikeAnOptionalGoWithWhatGivesItAValue) {
  AddBranch("a", "p", "x", /*taken=*/3, /*other=*/2);
  const testing::Attr variant = testing::Type("T", tensorflow::DT_VARIANT);
  b_.Add("some", "OptionalFromValue", {"a_1_2"}, {testing::Types("Toutput_types", {tensorflow::DT_FLOAT})});
  b_.Add("none", "OptionalNone", {"^a_0_1"});
  b_.Add("held", "Merge", {"none", "some"}, {variant, testing::Int("N", 2)});
  b_.Add("zeros", "ZerosLike", {"held"}, {variant});
  b_.Fetch("a_merge");
  b_.Fetch("zeros");
  EXPECT_EQ(Dead(), (std::vector<Names>{{"a_0_0", "a_0_1", "none"}, {"a_1_0", "a_1_1", "a_1_2", "some", "zeros"}}));
}

}  // namespace
}  // namespace lms
