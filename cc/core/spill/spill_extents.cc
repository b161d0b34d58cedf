#include "cc/core/spill/spill_extents.h"

#include <algorithm>
#include <iterator>

namespace lms {

void SpillExtents::Insert(int64_t offset, int64_t bytes) {
  free_[offset] = bytes;
  by_size_.insert({bytes, offset});
}

void SpillExtents::Erase(std::map<int64_t, int64_t>::iterator part) {
  by_size_.erase({part->second, part->first});
  free_.erase(part);
}

std::optional<SpillExtent> SpillExtents::Allocate(int64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *fit;
  Erase(free_.find(offset));
  if (size > bytes) Insert(offset + bytes, size - bytes);
  used_ += bytes;
  return SpillExtent{offset, bytes};
}

std::vector<SpillExtent> SpillExtents::AllocateParts(int64_t bytes) {
  if (size_ - used_ < bytes) return {};
  std::vector<SpillExtent> parts;
  while (bytes > 0) {
    const int64_t largest = by_size_.rbegin()->first;
    parts.push_back(*Allocate(std::min(bytes, largest)));
    bytes -= parts.back().bytes;
  }
  return parts;
}

void SpillExtents::Free(const SpillExtent& extent) {
  used_ -= extent.bytes;
  int64_t offset = extent.offset;
  int64_t bytes = extent.bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      Erase(before);
    }
  }
  if (next != free_.end() && extent.offset + extent.bytes == next->first) {
    bytes += next->second;
    Erase(next);
  }
  Insert(offset, bytes);
}

void SpillExtents::Grow(int64_t bytes) {
  const SpillExtent added{size_, bytes};
  size_ += bytes;
  used_ += bytes;
  Free(added);
}

int64_t SpillExtents::FreeAtEnd() const {
  if (free_.empty()) return 0;
  const auto last = std::prev(free_.end());
  return last->first + last->second == size_ ? last->second : 0;
}

int64_t SpillExtents::Shrink() {
  const int64_t end = FreeAtEnd();
  if (end > 0) {
    Erase(std::prev(free_.end()));
    size_ -= end;
  }
  return size_;
}

}  // namespace lms
