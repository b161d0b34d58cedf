#include "cc/tf/predict/chunk_splits.h"

#include <algorithm>

#include "cc/core/simulate/arena.h"

namespace lms {
namespace {

using ::tensorflow::BFCAllocator;

// A private member, and nothing else tells or changes it. An explicit instantiation may name it.
const BFCAllocator::Options& OptionsOf(const BFCAllocator& allocator);
template <const BFCAllocator::Options BFCAllocator::* kMember>
struct OptionsMember {
  friend const BFCAllocator::Options& OptionsOf(const BFCAllocator& allocator) { return allocator.*kMember; }
};
template struct OptionsMember<&BFCAllocator::opts_>;

// The allocator's own limit, of which the option is a share.
double LimitOf(BFCAllocator* allocator) {
  const auto stats = allocator->GetStats();
  return stats && stats->bytes_limit ? static_cast<double>(*stats->bytes_limit) : 0;
}

double FractionOf(const BFCAllocator& allocator) {
  double fraction = 0;
  __atomic_load(&OptionsOf(allocator).fragmentation_fraction, &fraction, __ATOMIC_RELAXED);
  return fraction;
}

}  // namespace

int64_t LeastSplitOff(BFCAllocator* allocator) {
  const double fraction = FractionOf(*allocator);
  if (fraction <= 0) return ArenaSettings().least_split_off;
  return std::max(kArenaUnit, static_cast<int64_t>(fraction * LimitOf(allocator)));
}

void SplitExactly(BFCAllocator* allocator) {
  const double limit = LimitOf(allocator);
  if (limit <= 0 || FractionOf(*allocator) != 0) return;
  // Half a byte more, as TensorFlow rounds the product down. Its allocations read the figure each time, under a lock
  // of theirs; it is one word, so they see the one or the other.
  double fraction = (static_cast<double>(kArenaUnit) + 0.5) / limit;
  __atomic_store(const_cast<double*>(&OptionsOf(*allocator).fragmentation_fraction), &fraction, __ATOMIC_RELAXED);
}

}  // namespace lms
