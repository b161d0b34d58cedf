#include "cc/core/base/own_heap.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace lms {
namespace {

TEST(OwnHeap, WorkIsDoneElsewhereBeforeItReturns) {
  std::thread::id ran;
  OnOwnHeap([&ran] { ran = std::this_thread::get_id(); });
  EXPECT_NE(ran, std::thread::id());
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(OwnHeap, WhatIsThrownReachesTheCaller) {
  EXPECT_THROW(OnOwnHeap([] { throw std::invalid_argument("here"); }), std::invalid_argument);
}

}  // namespace
}  // namespace lms
