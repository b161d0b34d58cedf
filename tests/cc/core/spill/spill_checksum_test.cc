#include "cc/core/spill/spill_checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace lms {
namespace {

std::vector<char> Pattern(size_t bytes) {
  std::vector<char> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 251);
  return data;
}

uint32_t Sum(const std::vector<char>& data) {
  std::vector<char> copy(data.size() + 1, 'x');
  const uint32_t sum = CopyAndSum(copy.data(), data.data(), data.size());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), copy.begin()));
  EXPECT_EQ(copy.back(), 'x');
  return sum;
}

TEST(SpillChecksumTest, CopiesAndRepeats) {
  for (const size_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097, 100000}) {
    EXPECT_EQ(Sum(Pattern(bytes)), Sum(Pattern(bytes))) << bytes;
  }
}

TEST(SpillChecksumTest, EveryChangedByteChangesIt) {
  std::vector<char> data = Pattern(4096 + 100);
  const uint32_t sum = Sum(data);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] ^= static_cast<char>(1 << (i % 8));
    EXPECT_NE(Sum(data), sum) << i;
    data[i] ^= static_cast<char>(1 << (i % 8));
  }
}

TEST(SpillChecksumTest, ZerosAndOrderAndLengthCount) {
  std::vector<char> data = Pattern(3 * 4096);
  const uint32_t sum = Sum(data);
  std::vector<char> swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4096, swapped.begin() + 4096);
  EXPECT_NE(Sum(swapped), sum);
  std::vector<char> zeroed = data;
  std::memset(zeroed.data() + 4096, 0, 4096);
  EXPECT_NE(Sum(zeroed), sum);
  std::set<uint32_t> of_zeros;
  for (size_t bytes = 0; bytes < 300; ++bytes) of_zeros.insert(Sum(std::vector<char>(bytes)));
  EXPECT_EQ(of_zeros.size(), 300u);
}

}  // namespace
}  // namespace lms
