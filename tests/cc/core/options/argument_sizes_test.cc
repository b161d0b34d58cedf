#include "cc/core/options/argument_sizes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lms {
namespace {

using Lines = std::vector<std::string>;

UnknownDim Parsed(const std::string& text) {
  UnknownDim unknown_dim;
  EXPECT_EQ(ParseUnknownDim(text, &unknown_dim), std::nullopt) << text;
  return unknown_dim;
}

std::vector<SeenSize> Seen(const std::string& text) {
  std::vector<SeenSize> seen;
  EXPECT_TRUE(ParseSeenSizes(text, &seen)) << text;
  return seen;
}

Argument Tensor(const std::string& name, int number, const TensorShape& shape, const std::string& user_name = "") {
  return {name, user_name, number, false, {shape}};
}

TEST(ArgumentSizes, OneNumberForAll) {
  EXPECT_EQ(Parsed("64").everywhere, 64);
  EXPECT_EQ(Parsed(" =64 ").everywhere, 64);
  EXPECT_TRUE(Parsed("64").named.empty());
}

TEST(ArgumentSizes, ByArgumentAndDimension) {
  const UnknownDim parsed = Parsed("images=64, tokens:1 = 128,a/b_1:2=3, = 7");
  ASSERT_EQ(parsed.named.size(), 3u);
  EXPECT_EQ(parsed.named[0].argument, "images");
  EXPECT_EQ(parsed.named[0].dim, 0);
  EXPECT_EQ(parsed.named[0].size, 64);
  EXPECT_EQ(parsed.named[1].argument, "tokens");
  EXPECT_EQ(parsed.named[1].dim, 1);
  EXPECT_EQ(parsed.named[1].size, 128);
  EXPECT_EQ(parsed.named[2].argument, "a/b_1");
  EXPECT_EQ(parsed.named[2].dim, 2);
  EXPECT_EQ(parsed.everywhere, 7);
}

TEST(ArgumentSizes, TextsThatSayNothing) {
  for (const char* text : {"", ",", "images", "images=", "images=0", "images=-3", "images=4.5", "images=64,", "x:=3",
                           "x:y=3", "x:-1=3", "x:255=3", ":1=3", "64, 32", "x=1, x:0=2", "x=99999999999999999999"}) {
    UnknownDim unknown_dim;
    unknown_dim.everywhere = 5;
    EXPECT_NE(ParseUnknownDim(text, &unknown_dim), std::nullopt) << text;
    EXPECT_EQ(unknown_dim.everywhere, 5) << text;
  }
}

TEST(ArgumentSizes, WhatWasSeen) {
  const std::vector<SeenSize> seen = Seen("first call|0:0=64,12:1=0;Keras batch_size|2.3:0=16");
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].source, "first call");
  EXPECT_EQ(seen[1].argument, 12);
  EXPECT_EQ(seen[1].dim, 1);
  EXPECT_EQ(seen[1].size, 0);
  EXPECT_EQ(seen[2].argument, 2);
  EXPECT_EQ(seen[2].tensor, 3);
  EXPECT_EQ(seen[2].size, 16);
  EXPECT_EQ(seen[2].source, "Keras batch_size");
  std::vector<SeenSize> none;
  for (const char* text : {"", "call", "call|", "call|0=1", "call|0:0", "call|0.:0=1", "call|a:0=1", "call|0:0=1,"}) {
    EXPECT_FALSE(ParseSeenSizes(text, &none)) << text;
  }
}

TEST(ArgumentSizes, TheUsersWordIsBeforeWhatWasSeenAndThatBeforeTheAssumption) {
  const std::vector<Argument> arguments = {Tensor("images", 0, {-1, 8}), Tensor("tokens", 1, {-1, -1}),
                                           Tensor("known", 2, {4})};
  const ArgumentSizes sizes = SizeArguments(arguments, Parsed("tokens:1=128"), Seen("first call|0:0=64,1:1=5"), 32);
  EXPECT_EQ(sizes.lines,
            (Lines{"images:0 = 64 (first call)", "tokens:0 = 32 (assumed)", "tokens:1 = 128 (unknown_dim)"}));
  EXPECT_EQ(sizes.assumed, Lines{"tokens:0"});
  EXPECT_TRUE(sizes.problems.empty());
  ASSERT_EQ(sizes.bound.size(), 2u);
  EXPECT_EQ(sizes.bound[1].argument, 1u);
  EXPECT_EQ(sizes.bound[1].dim, 1u);
  EXPECT_EQ(sizes.bound[1].size, 128);
  ASSERT_EQ(sizes.open.size(), 1u);
  EXPECT_EQ(sizes.open[0].argument, 1u);
  EXPECT_EQ(sizes.open[0].size, 32);
  // One number for all leaves nothing to be seen or assumed.
  const ArgumentSizes all = SizeArguments(arguments, Parsed("16"), Seen("first call|0:0=64"), 32);
  EXPECT_EQ(all.lines[0], "images:0 = 16 (unknown_dim)");
  EXPECT_TRUE(all.assumed.empty());
}

TEST(ArgumentSizes, AParametersNameStandsForAllItsTensorsThatLeaveTheDimensionOpen) {
  const std::vector<Argument> arguments = {Tensor("d_1", 0, {-1}, "d"), Tensor("d_2", 1, {3}, "d"),
                                           Tensor("d", 2, {-1, -1}, "d")};
  const ArgumentSizes sizes = SizeArguments(arguments, Parsed("d=10, d_1=20"), {}, 32);
  EXPECT_TRUE(sizes.problems.empty());
  // The node's own name is nearer than the parameter's.
  EXPECT_EQ(sizes.lines, (Lines{"d_1:0 = 20 (unknown_dim)", "d:0 = 10 (unknown_dim)", "d:1 = 32 (assumed)"}));
}

TEST(ArgumentSizes, ElementsOfAnIterator) {
  Argument iterator = {"iterator", "iterator", 0, true, {TensorShape{-1, 8}, TensorShape{-1}, std::nullopt}};
  const ArgumentSizes named = SizeArguments({iterator}, Parsed("iterator=16"), {}, 32);
  EXPECT_EQ(named.lines, (Lines{"iterator[0]:0 = 16 (unknown_dim)", "iterator[1]:0 = 16 (unknown_dim)"}));
  const ArgumentSizes seen = SizeArguments({iterator}, {}, Seen("Keras batch_size|0.1:0=48"), 32);
  EXPECT_EQ(seen.lines, (Lines{"iterator[0]:0 = 32 (assumed)", "iterator[1]:0 = 48 (Keras batch_size)"}));
}

TEST(ArgumentSizes, WhatContradictsAKnownShape) {
  const std::vector<Argument> arguments = {Tensor("x", 0, {-1, 8})};
  EXPECT_TRUE(SizeArguments(arguments, Parsed("x:1=8"), {}, 32).problems.empty());
  const ArgumentSizes other = SizeArguments(arguments, Parsed("x:1=9"), {}, 32);
  EXPECT_EQ(other.problems, Lines{"unknown_dim: x:1=9 contradicts the shape [?, 8] of 'x'"});
  EXPECT_EQ(SizeArguments(arguments, Parsed("x:2=9"), {}, 32).problems.size(), 1u);
  EXPECT_TRUE(SizeArguments({{"x", "", 0, false, {std::nullopt}}}, Parsed("x:2=9"), {}, 32).problems.empty());
}

TEST(ArgumentSizes, ANameThatTheFunctionHasNot) {
  const ArgumentSizes sizes = SizeArguments({Tensor("images", 0, {-1})}, Parsed("image=4"), {}, 32);
  EXPECT_EQ(sizes.strange, Lines{"image"});
  EXPECT_TRUE(sizes.problems.empty());
  EXPECT_EQ(sizes.assumed, Lines{"images:0"});
}

TEST(ArgumentSizes, NumbersOfTheFirstCall) {
  std::vector<SeenValue> values;
  ASSERT_TRUE(ParseSeenValues("2=1200 1200;5=7", &values));
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].argument, 2);
  EXPECT_EQ(values[0].numbers, (std::vector<int64_t>{1200, 1200}));
  EXPECT_EQ(values[1].argument, 5);
  EXPECT_EQ(values[1].numbers, (std::vector<int64_t>{7}));
  EXPECT_TRUE(ParseSeenValues("", &values));
  EXPECT_TRUE(values.empty());
  for (const char* wrong : {"2", "=3", "2=", "2=-1", "2=1,2", "2=1  2", "x=1", "2=1;", ";2=1", "2=1 "}) {
    EXPECT_FALSE(ParseSeenValues(wrong, &values)) << wrong;
  }
}

}  // namespace
}  // namespace lms
