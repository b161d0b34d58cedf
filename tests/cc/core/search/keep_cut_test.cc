#include "cc/core/search/keep_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace lms {
namespace {

// A body whose op k makes tensor k of earlier ones; tensor 0 and 1 come from outside.
KeepProblem RandomBody(std::mt19937* rng, int ops) {
  const auto any = [rng](int below) { return static_cast<int>((*rng)() % static_cast<uint32_t>(below)); };
  KeepProblem problem;
  problem.tensors.resize(2);
  problem.tensors[0].bytes = 1 + any(8);
  for (int o = 0; o < ops; ++o) {
    KeepProblem::Op op;
    const int inputs = 1 + any(2);
    for (int i = 0; i < inputs; ++i) op.inputs.push_back(any(static_cast<int>(problem.tensors.size())));
    op.cost_us = any(10);
    op.recomputable = any(6) != 0;
    problem.ops.push_back(op);
    KeepProblem::Tensor tensor;
    tensor.producer = o;
    tensor.bytes = 1 + any(8);
    tensor.keepable = any(4) != 0 || !op.recomputable;
    problem.tensors.push_back(tensor);
  }
  for (int w = 0; w < 2; ++w) problem.wanted.push_back(2 + any(ops));
  return problem;
}

struct Choice {
  double bytes;
  double cost_us;
};

// Of all sets of tensors that are kept: what each takes, where it is enough.
std::vector<Choice> AllChoices(const KeepProblem& problem) {
  std::vector<Choice> choices;
  const auto count = static_cast<uint32_t>(problem.tensors.size());
  for (uint32_t kept = 0; kept < (1U << count); ++kept) {
    Choice choice{0, 0};
    bool possible = true;
    std::vector<bool> there(count, false);
    std::vector<bool> again(problem.ops.size(), false);
    std::vector<int> pending = problem.wanted;
    while (!pending.empty() && possible) {
      const int t = pending.back();
      pending.pop_back();
      if (there[t]) continue;
      there[t] = true;
      const KeepProblem::Tensor& tensor = problem.tensors[t];
      if ((kept >> static_cast<uint32_t>(t)) & 1U) {
        choice.bytes += tensor.bytes;
        possible = tensor.keepable;
      } else if (tensor.producer < 0 || !problem.ops[tensor.producer].recomputable) {
        possible = false;
      } else {
        const KeepProblem::Op& op = problem.ops[tensor.producer];
        if (!again[tensor.producer]) choice.cost_us += op.cost_us;
        again[tensor.producer] = true;
        pending.insert(pending.end(), op.inputs.begin(), op.inputs.end());
      }
    }
    if (possible) choices.push_back(choice);
  }
  return choices;
}

TEST(KeepCut, CornersAreTheBestOfAllChoices) {
  std::mt19937 rng(7);
  int corners = 0;
  for (int round = 0; round < 150; ++round) {
    const KeepProblem problem = RandomBody(&rng, 8);
    const std::vector<Choice> all = AllChoices(problem);
    const std::vector<KeepCut> cuts = KeepCuts(problem, 50);
    ASSERT_EQ(cuts.empty(), all.empty()) << round;
    if (all.empty()) continue;
    double least_bytes = std::numeric_limits<double>::infinity();
    for (const Choice& choice : all) least_bytes = std::min(least_bytes, choice.bytes);
    EXPECT_EQ(cuts.back().bytes, least_bytes) << round;
    // No choice is below the line through any two neighbours, nor below what the first one takes.
    for (size_t i = 0; i < cuts.size(); ++i) {
      const double us_per_byte =
          i == 0 ? 1e-9 : (cuts[i].cost_us - cuts[i - 1].cost_us) / (cuts[i - 1].bytes - cuts[i].bytes);
      ASSERT_GT(us_per_byte, 0) << round;
      const double price = cuts[i].cost_us + us_per_byte * cuts[i].bytes;
      for (const Choice& choice : all) {
        EXPECT_GE(choice.cost_us + us_per_byte * choice.bytes, price * (1 - 1e-5) - 1e-9) << round;
      }
    }
    corners += static_cast<int>(cuts.size());
  }
  EXPECT_GT(corners, 150);  // more than one each, on average
}

TEST(KeepCut, SaysWhatIsKeptAndWhatRunsAgain) {
  // state -> product (dear) -> squashed (cheap); both are wanted.
  KeepProblem problem;
  problem.tensors = {{-1, 4, true}, {0, 16, true}, {1, 4, true}};
  problem.ops = {{{0}, 100, true}, {{1}, 1, true}};
  problem.wanted = {1, 2};
  const std::vector<KeepCut> cuts = KeepCuts(problem, 10);
  ASSERT_EQ(cuts.size(), 3U);
  EXPECT_EQ(cuts[0].kept, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(cuts[1].kept, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(cuts[1].recomputed, (std::vector<bool>{false, true}));
  EXPECT_EQ(cuts[2].kept, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(cuts[2].recomputed, (std::vector<bool>{true, true}));
  EXPECT_EQ(cuts[2].bytes, 4);
  EXPECT_EQ(cuts[2].cost_us, 101);
}

TEST(KeepCut, HasNoMoreCornersThanAskedFor) {
  std::mt19937 rng(3);
  for (int round = 0; round < 20; ++round) {
    const KeepProblem problem = RandomBody(&rng, 12);
    const std::vector<KeepCut> all = KeepCuts(problem, 50);
    const std::vector<KeepCut> some = KeepCuts(problem, 2);
    ASSERT_LE(some.size(), 2U);
    if (!all.empty()) {
      EXPECT_EQ(some.back().bytes, all.back().bytes);
    }
  }
}

TEST(KeepCut, NothingWhereSomethingCanNeitherBeKeptNorComputed) {
  KeepProblem problem;
  problem.tensors = {{-1, 4, false}, {0, 8, false}};
  problem.ops = {{{0}, 1, true}};
  problem.wanted = {1};
  EXPECT_TRUE(KeepCuts(problem, 10).empty());
}

}  // namespace
}  // namespace lms
