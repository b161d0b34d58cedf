#include "cc/core/base/block_space.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lms {

BlockSpace::BlockSpace(std::vector<int64_t> blocks) : blocks_(std::move(blocks)), taken_(blocks_.size()) {}

bool BlockSpace::Take(const Place& place, int64_t bytes) {
  if (place.offset + bytes > blocks_[place.block]) return false;
  std::map<int64_t, int64_t>& taken = taken_[place.block];
  const auto next = taken.lower_bound(place.offset);
  if (next != taken.end() && next->first < place.offset + bytes) return false;
  if (next != taken.begin() && std::prev(next)->second > place.offset) return false;
  taken.emplace_hint(next, place.offset, place.offset + bytes);
  ++count_;
  return true;
}

template <typename Visit>
void BlockSpace::VisitFree(const Visit& visit) const {
  for (size_t b = 0; b < blocks_.size(); ++b) {
    int64_t free_from = 0;
    for (const auto& [from, to] : taken_[b]) {
      if (from > free_from) visit(Place{static_cast<int>(b), free_from}, from - free_from);
      free_from = to;
    }
    if (blocks_[b] > free_from) visit(Place{static_cast<int>(b), free_from}, blocks_[b] - free_from);
  }
}

std::optional<Place> BlockSpace::TakeAnywhere(int64_t bytes) {
  std::optional<Place> best;
  int64_t best_bytes = 0;
  VisitFree([&](const Place& place, int64_t free) {
    if (free < bytes || (best && free >= best_bytes)) return;
    best = place;
    best_bytes = free;
  });
  if (best) Take(*best, bytes);
  return best;
}

void BlockSpace::Give(const Place& place) { count_ -= taken_[place.block].erase(place.offset); }

int64_t BlockSpace::LargestFree() const {
  int64_t largest = 0;
  VisitFree([&](const Place&, int64_t free) { largest = std::max(largest, free); });
  return largest;
}

}  // namespace lms
