#include "cc/tf/node_names.h"

#include <gtest/gtest.h>

namespace lms {
namespace {

TEST(NodeNames, ACopyIsRecognisedAndLeadsBackToItsOriginal) {
  const std::string name = RecomputeName(12, "model/dense/MatMul");
  EXPECT_EQ(name, "lms/recompute/12/model/dense/MatMul");
  EXPECT_TRUE(IsOwnName(name));
  EXPECT_EQ(OriginalName(name), "model/dense/MatMul");
}

TEST(NodeNames, OthersAreNot) {
  // A model, or a scope, of the same name.
  for (const char* name : {"lms/dense/MatMul", "lms/recompute/dense", "lms", "model/lms/recompute/1/x", ""}) {
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
