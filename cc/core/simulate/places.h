// Places for what a step allocates, thought out before it runs.
//
// An allocator that sees one request after the other leaves holes: what is kept for long comes to lie between what is
// gone soon. A step is known beforehand, so all its larger tensors can be given places in blocks of memory such that no
// two that are there at the same time overlap, in whichever of the foreseen orders the ops run. Greedy: the largest
// first, or those that most others meet, or the longest-lived, each to the smallest gap that is left for it; those that
// found none are the first in the next round. After the interval packing of
// Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018), and STAlloc (Huang et al.,
// 2025).

#ifndef LMS_CC_CORE_SIMULATE_PLACES_H_
#define LMS_CC_CORE_SIMULATE_PLACES_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/block_space.h"
#include "cc/core/graph/mem_graph.h"

namespace lms {

// What of an op is allocated: its output of that number (MemOp::outputs), or its workspace.
struct Allocated {
  static constexpr int kWorkspace = -1;
  static constexpr int kOther = -2;  // is given no place

  OpId op = kNone;
  int part = kOther;

  bool operator==(const Allocated& other) const { return op == other.op && part == other.part; }
  bool operator<(const Allocated& other) const { return op != other.op ? op < other.op : part < other.part; }
};

// One allocation in a run, from one event of the run to another.
struct Lifetime {
  Allocated what;
  int64_t bytes = 0;
  int32_t from = 0;
  int32_t to = INT32_MAX;
  bool stays = false;  // it is handed on to somebody who keeps it after the step
};

// The places of a step. They are those of one allocation after the other in a few blocks, which an allocator is asked
// for when the first of them is wanted, and given back when nothing is in them.
struct Places {
  struct Entry {
    Allocated what;
    int64_t bytes = 0;
    Place place;

    bool operator==(const Entry& other) const {
      return what == other.what && bytes == other.bytes && place == other.place;
    }
  };
  std::vector<int64_t> blocks;  // bytes, the largest first
  std::vector<Entry> entries;   // in the order of `what`

  bool empty() const { return entries.empty(); }
  const Place* Find(const Allocated& what, int64_t bytes) const;
};

// `runs`: all allocations of one run after the other. `free`: the pieces of memory that there are when the step begins.
// What has less than `least_bytes`, or stays after the step, gets no place, and room is left for it outside of the
// blocks. Up to four ways, that with the smallest blocks first, each of which
// has gaps for all others. Two may share a place that are there together in no more than this share of the runs
// (`rare`): in these one of them will have to be somewhere else. O(n^2 r) in those that get places and in the runs.
std::vector<Places> FindPlaces(const std::vector<std::vector<Lifetime>>& runs, std::vector<int64_t> free,
                               int64_t least_bytes, double rare = 0);

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_PLACES_H_
