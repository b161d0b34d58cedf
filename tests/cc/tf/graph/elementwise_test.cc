#include "cc/tf/graph/elementwise.h"

#include <vector>

#include "gtest/gtest.h"

namespace lms {
namespace {

using Order = std::vector<int>;

constexpr auto kAdd = ElementwiseKind::kAdd;
constexpr auto kMul = ElementwiseKind::kMul;
constexpr auto kNeg = ElementwiseKind::kNeg;

TEST(TakeoverOrderTest, OfOneOpItIsThatOfItsInputs) {
  EXPECT_EQ(TakeoverOrder({{kMul, 1, 0}}), (Order{1, 0}));
  EXPECT_EQ(TakeoverOrder({{kNeg, 0, 0}}), Order{0});
}

// A residual sum, AddN(x, product), takes the memory of x over, and that of the product where x is read by others. The
// product has some memory in any case: of AddN(product, x) that of x is never taken over.
TEST(TakeoverOrderTest, TheLastOpTriesFirst) {
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kAdd, 2, kResultBefore}}), (Order{2, 0, 1}));
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kAdd, kResultBefore, 2}}), (Order{0, 1}));
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kAdd, kResultBefore, 2}, {kAdd, kResultBefore, 3}}), (Order{0, 1}));
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kAdd, 2, kResultBefore}, {kAdd, kResultBefore, 3}}), (Order{2, 0, 1}));
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kNeg, kResultBefore, kResultBefore}}), (Order{0, 1}));
}

TEST(TakeoverOrderTest, WhatIsReadTwiceIsNotTakenOver) {
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 0}}), Order());
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kMul, kResultBefore, kResultBefore}}), Order());
  // A later op reads it: the first one has to leave it alone.
  EXPECT_EQ(TakeoverOrder({{kMul, 0, 1}, {kAdd, kResultBefore, 0}}), Order{1});
}

}  // namespace
}  // namespace lms
