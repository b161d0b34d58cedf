#include "cc/core/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace lms {
namespace {

TEST(Bytes, AreWrittenInPowersOf1024) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1610612736), "1.50 GiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
}

TEST(Bytes, AreReadWithAndWithoutASuffix) {
  EXPECT_EQ(ParseBytes("123"), 123);
  EXPECT_EQ(ParseBytes("123B"), 123);
  EXPECT_EQ(ParseBytes("6GiB"), int64_t{6} << 30);
  EXPECT_EQ(ParseBytes("6gib"), int64_t{6} << 30);
  EXPECT_EQ(ParseBytes(" 1.5 MiB "), 1572864);
  EXPECT_EQ(ParseBytes("500 MB"), 500000000);
  EXPECT_EQ(ParseBytes("1e3"), 1000);
  EXPECT_EQ(ParseBytes("2TB"), 2000000000000);
}

TEST(Bytes, NothingElseIsASize) {
  for (const char* text : {"", "GiB", "-1", "-1GiB", "lots", "6 GiBs", "0x10", "inf", "nan", "1e400", "1..5", "6G B",
                           "1 2 GB", "9e18TiB", "60%", "--3"}) {
    EXPECT_FALSE(ParseBytes(text).has_value()) << text;
  }
}

TEST(Bytes, ANumberIsTheWholeText) {
  EXPECT_EQ(ParseNumber("12.5"), 12.5);
  EXPECT_EQ(ParseNumber("-3e2"), -300);
  for (const char* text : {"", "12.5x", " 12", "inf", "nan", "0x1p3", "e"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace lms
