#include "cc/tf/variable_waits.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph_index.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;

// A weight of 64 KiB and more; its gradient (n1) updates it, and n2 reads it to pass the gradient on.
class Weights {
 public:
  explicit Weights(int64_t rows) {
    b_.Feed("x", {rows, 128});
    b_.Variable("w", {rows, 128});
    b_.Read("read", "w");
    b_.Float("n1", "Neg", {"x"});
    b_.Float("view", "Identity", {"read"});
    b_.Float("n2", "Mul", {"view", "x"});
    b_.Update("update", "w", "n1");
    b_.Fetch("n2");
    b_.Add("end", "NoOp", {"^update"});
    b_.Fetch("end");
  }

  GraphBuilder& builder() { return b_; }

  std::vector<std::pair<std::string, std::string>> Waits() {
    const tensorflow::grappler::GrapplerItem& item = b_.item();
    GraphIndex index;
    EXPECT_TRUE(index.Build(item).ok());
    std::vector<std::pair<std::string, std::string>> waits;
    for (const VariableWait& wait : FindVariableWaits(item.graph, index)) {
      waits.emplace_back(item.graph.node(wait.update).name(), item.graph.node(wait.reader).name());
    }
    return waits;
  }

 private:
  GraphBuilder b_;
};

using Names = std::vector<std::pair<std::string, std::string>>;

TEST(VariableWaitsTest, AnUpdateWaitsForThoseWhoReadTheVariableThroughViewsToo) {
  Weights weights(128);
  weights.builder().Float("n3", "Exp", {"n2"});
  weights.builder().Fetch("n3");
  EXPECT_EQ(weights.Waits(), (Names{{"update", "n2"}}));
}

TEST(VariableWaitsTest, UpdatesThatTheFunctionKeepsByNameWaitAndThoseThatAreFetchedDoNot) {
  Weights kept(128);
  kept.builder().item().keep_ops.push_back("update");
  EXPECT_EQ(kept.Waits(), (Names{{"update", "n2"}}));
  Weights fetched(128);
  fetched.builder().Fetch("update");
  EXPECT_EQ(fetched.Waits(), Names());
}

TEST(VariableWaitsTest, SmallVariablesAreNotWorthAnEdge) {
  Weights weights(127);
  EXPECT_EQ(weights.Waits(), Names());
}

TEST(VariableWaitsTest, WhatDependsOnTheUpdateIsNotWaitedFor) {
  Weights weights(128);
  weights.builder().Float("late", "Neg", {"read", "^update"});
  weights.builder().Fetch("late");
  weights.builder().Float("n3", "Neg", {"read"});
  weights.builder().Fetch("n3");
  const Names waits = weights.Waits();
  for (const auto& [update, reader] : waits) EXPECT_NE(reader, "late");
}

}  // namespace
}  // namespace lms
