#include "cc/core/spill/spill_checksum.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lms {
namespace {

constexpr size_t kLanes = 8;                    // of 64 bits: sums that the compiler turns into vector instructions
constexpr size_t kBlock = 4096;                 // copied, then read again while it is in the nearest cache
constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio

using Words = std::array<uint64_t, kLanes>;

// For each lane the sum of its words, and the sum of those sums, in which each word counts by its place.
struct Sums {
  Words plain{};
  Words placed{};

  void Add(const Words& words) {
    for (size_t i = 0; i < kLanes; ++i) {
      plain[i] += words[i];
      placed[i] += plain[i];
    }
  }
};

uint64_t Mixed(uint64_t all, uint64_t word) {
  all = (all ^ word) * kOdd;
  return all ^ (all >> 29);
}

}  // namespace

uint32_t CopyAndSum(void* to, const void* from, size_t bytes) {
  Sums sums;
  Words words;
  const auto* source = static_cast<const char*>(from);
  auto* target = static_cast<char*>(to);
  const size_t whole = bytes / sizeof(Words) * sizeof(Words);
  for (size_t block = 0; block < whole; block += kBlock) {
    const size_t end = std::min(block + kBlock, whole);
    std::memcpy(target + block, source + block, end - block);
    for (size_t at = block; at < end; at += sizeof(Words)) {
      std::memcpy(words.data(), target + at, sizeof(Words));
      sums.Add(words);
    }
  }
  if (whole < bytes) {
    std::memcpy(target + whole, source + whole, bytes - whole);
    words = {};
    std::memcpy(words.data(), target + whole, bytes - whole);
    sums.Add(words);
  }
  uint64_t all = Mixed(kOdd, bytes);
  for (size_t i = 0; i < kLanes; ++i) all = Mixed(Mixed(all, sums.plain[i]), sums.placed[i]);
  return static_cast<uint32_t>(all ^ (all >> 32));
}

}  // namespace lms
