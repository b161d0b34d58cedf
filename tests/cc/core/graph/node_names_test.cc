#include "cc/core/graph/node_names.h"

#include <gtest/gtest.h>

#include <string>

namespace lms {
namespace {

TEST(NodeNames, ACopyIsRecognisedAndLeadsBackToItsOriginal) {
  const std::string name = RecomputeName(12, "model/dense/MatMul");
  EXPECT_EQ(name, "lms/recompute/12/model/dense/MatMul");
  EXPECT_TRUE(IsOwnName(name));
  EXPECT_EQ(OriginalName(name), "model/dense/MatMul");
}

TEST(NodeNames, SwapsLeadBackToTheNodeWhoseTensorTheyMove) {
  EXPECT_EQ(SwapOutName(3, "model/dense"), "lms/swap_out/3/model/dense");
  EXPECT_EQ(SwapInName(40, "model/dense"), "lms/swap_in/40/model/dense");
  for (const std::string& name : {SwapOutName(3, "model/dense"), SwapInName(40, "model/dense")}) {
    EXPECT_TRUE(IsOwnName(name));
    EXPECT_EQ(OriginalName(name), "model/dense");
  }
}

TEST(NodeNames, OthersAreNot) {
  // A model, or a scope, of the same name.
  for (const char* name : {"lms/dense/MatMul", "lms/recompute/dense", "lms/swap_in/x", "lms/swap_out/", "lms",
                           "model/lms/recompute/1/x", ""}) {
    EXPECT_FALSE(IsOwnName(name)) << name;
  }
  EXPECT_EQ(OriginalName("model/dense/MatMul"), "model/dense/MatMul");
}

TEST(NodeNames, StrictNodes) {
  EXPECT_TRUE(IsOwnName(StrictName("budget_not_met")));
  EXPECT_EQ(OriginalName(StrictName("budget_not_met")), StrictName("budget_not_met"));
}

}  // namespace
}  // namespace lms
