#include "cc/core/system/step_peak.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace lms {
namespace {

constexpr size_t kBefore = std::numeric_limits<size_t>::max();  // as a begin: it was there before the first event
constexpr size_t kStays = std::numeric_limits<size_t>::max();   // as an end

struct Block {
  int64_t bytes = 0;
  int64_t run = 0;
  size_t begin = kBefore;
  size_t end = kStays;
  bool batch = false;
};

int64_t OwnRun(const std::vector<AllocationEvent>& events) {
  std::map<int64_t, int64_t> bytes;
  for (const AllocationEvent& event : events) {
    if (event.taken > 0 && event.run != 0) return event.run;
    if (event.bytes > 0 && event.run != 0) bytes[event.run] += event.bytes;
  }
  int64_t largest = 0;
  for (const auto& [run, sum] : bytes) {
    if (largest == 0 || sum > bytes[largest]) largest = run;
  }
  return largest;
}

std::vector<Block> Blocks(const std::vector<AllocationEvent>& events) {
  std::vector<Block> blocks;
  std::unordered_map<const void*, size_t> live;
  std::unordered_set<const void*> taken;  // of those that were there before
  for (size_t i = 0; i < events.size(); ++i) {
    const AllocationEvent& event = events[i];
    if (event.taken > 0) {
      const auto found = live.find(event.pointer);
      if (found == live.end()) {
        taken.insert(event.pointer);
      } else {
        blocks[found->second].batch = true;
      }
      continue;
    }
    if (event.bytes > 0) {
      live[event.pointer] = blocks.size();
      blocks.push_back({event.bytes, event.run, i, kStays, false});
      continue;
    }
    const auto found = live.find(event.pointer);
    if (found == live.end()) {
      blocks.push_back({-event.bytes, 0, kBefore, i, taken.erase(event.pointer) != 0});
    } else {
      blocks[found->second].end = i;
      live.erase(found);
    }
  }
  return blocks;
}

// Oldest first; of those that were there before, the one that goes first.
bool Older(const Block& a, const Block& b) {
  if ((a.begin == kBefore) != (b.begin == kBefore)) return a.begin == kBefore;
  return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
}

// Marks the blocks that the step was handed: for each size the oldest that is released meanwhile. False: one was
// missed.
bool FindBatch(const std::vector<int64_t>& sizes, int64_t own, std::vector<Block>* blocks) {
  bool all = true;
  for (const int64_t size : sizes) {
    Block* best = nullptr;
    for (Block& block : *blocks) {
      const bool may = block.bytes == size && !block.batch && block.end != kStays && (own == 0 || block.run != own);
      if (may && (best == nullptr || Older(block, *best))) best = &block;
    }
    if (best == nullptr) {
      all = false;
    } else {
      best->batch = true;
    }
  }
  return all;
}

// Has the step been handed a tensor of each of these sizes? Nothing where nobody notes that.
std::optional<bool> Handed(std::vector<int64_t> sizes, const std::vector<AllocationEvent>& events) {
  bool noted = false;
  for (const AllocationEvent& event : events) {
    if (event.taken == 0) continue;
    noted = true;
    const auto found = std::find(sizes.begin(), sizes.end(), event.taken);
    if (found != sizes.end()) sizes.erase(found);
  }
  return noted ? std::make_optional(sizes.empty()) : std::nullopt;
}

// The highest sum on the way from `sum` on.
int64_t HighestOf(int64_t sum, const std::vector<int64_t>& changes) {
  int64_t highest = sum;
  for (const int64_t change : changes) {
    sum += change;
    highest = std::max(highest, sum);
  }
  return highest;
}

}  // namespace

StepPeak PeakOfStep(const std::vector<AllocationEvent>& events, const std::vector<int64_t>& batch) {
  StepPeak peak;
  const int64_t own = OwnRun(events);
  std::vector<Block> blocks = Blocks(events);
  const std::optional<bool> handed = Handed(batch, events);
  peak.complete = handed ? *handed : FindBatch(batch, own, &blocks);
  const std::unordered_set<int64_t> like_batch(batch.begin(), batch.end());
  std::unordered_map<int64_t, int64_t> new_ones;  // by size: of the step's blocks, how many stay
  for (const Block& block : blocks) {
    if (block.run == own && own != 0 && block.end == kStays) ++new_ones[block.bytes];
  }
  // By the number of the event: what it adds.
  std::vector<int64_t> change(events.size() + 1, 0);
  int64_t now = 0;
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.end < b.end; });
  for (const Block& block : blocks) {
    const bool before = block.begin == kBefore;
    const bool scratch = block.run == 0 && !before && block.end != kStays && like_batch.count(block.bytes) == 0;
    if (before && !block.batch) {
      const auto found = new_ones.find(block.bytes);
      if (found == new_ones.end() || found->second == 0) continue;
      --found->second;
      change[block.end] -= block.bytes;
      continue;
    }
    if (!block.batch && !scratch && (own == 0 || block.run != own)) continue;
    if (before) {
      now += block.bytes;
    } else {
      change[block.begin] += block.bytes;
    }
    if (block.end != kStays) change[block.end] -= block.bytes;
  }
  peak.bytes = HighestOf(now, change);
  return peak;
}

int64_t PeakBesideOthers(const std::vector<AllocationEvent>& events) {
  const int64_t own = OwnRun(events);
  std::vector<int64_t> change(events.size(), 0);
  for (const Block& block : Blocks(events)) {
    const bool before = block.begin == kBefore;
    if (own != 0 && !before && block.run != own && block.end == kStays) continue;
    if (!before) change[block.begin] += block.bytes;
    if (block.end != kStays) change[block.end] -= block.bytes;
  }
  return HighestOf(0, change);
}

}  // namespace lms
