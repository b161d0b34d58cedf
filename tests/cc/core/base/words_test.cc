#include "cc/core/base/words.h"

#include <gtest/gtest.h>

namespace lms {
namespace {

TEST(Words, OneOrSeveral) {
  EXPECT_EQ(Counted(0, "tensor"), "0 tensors");
  EXPECT_EQ(Counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(Counted(2, "tensor"), "2 tensors");
  EXPECT_EQ(Counted(1, "copy", "copies"), "1 copy");
  EXPECT_EQ(Counted(3, "copy", "copies"), "3 copies");
}

TEST(Words, SomeNames) {
  EXPECT_EQ(NameSome({}), "");
  EXPECT_EQ(NameSome({"a"}), "a");
  EXPECT_EQ(NameSome({"a", "b"}), "a and b");
  EXPECT_EQ(NameSome({"a", "b", "c", "d"}), "a, b, c and d");
  EXPECT_EQ(NameSome({"a", "b", "c", "d", "e", "f"}), "a, b, c, d and 2 more");
}

}  // namespace
}  // namespace lms
