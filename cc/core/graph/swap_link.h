// The way out of a device's memory and back: what swapping costs.
//
// A tier is where swapped bytes go: the host's memory (of a GPU) or a file. The link to it has two directions.
// Transfers of one direction follow each other: the one that is wanted first, or, where a device's queue makes them, in
// the order in which they came, and the small ones beside that queue. Where both directions together are hardly faster
// than one alone (a disk, most of all) they share one lane; otherwise each has its own, at the speed that it has while
// the other one is busy too.

#ifndef LMS_CC_CORE_GRAPH_SWAP_LINK_H_
#define LMS_CC_CORE_GRAPH_SWAP_LINK_H_

#include <cstdint>
#include <limits>

namespace lms {

struct SwapLink {
  double out_bytes_per_us = 0;  // alone; 0: there is no link, nothing is swapped
  double in_bytes_per_us = 0;
  double out_share = 1;   // of out_bytes_per_us while the other direction is busy too
  double in_share = 1;    // likewise
  double latency_us = 0;  // of each transfer, on top of its bytes
  double compute_us_per_byte =
      0;  // by which a byte, moved once, makes the ops longer: copies take processors from them
  int64_t queued_above = std::numeric_limits<int64_t>::max();    // of more bytes: in the order in which they came
  int64_t capacity_bytes = std::numeric_limits<int64_t>::max();  // of the tier, of which StoredBytes() are taken

  // Are copies handed to a device's queue? Then they begin behind the op that became ready at the same time.
  bool queues() const { return queued_above < std::numeric_limits<int64_t>::max(); }
  bool usable() const { return out_bytes_per_us > 0 && in_bytes_per_us > 0; }
  // Do both directions together move less than 1.5 times what one of them does?
  bool one_lane() const { return out_share + in_share < 1.5; }
  double OutUs(int64_t bytes) const {
    return latency_us + static_cast<double>(bytes) / (out_bytes_per_us * (one_lane() ? 1 : out_share));
  }
  double InUs(int64_t bytes) const {
    return latency_us + static_cast<double>(bytes) / (in_bytes_per_us * (one_lane() ? 1 : in_share));
  }
};

// What so many bytes take of a tier: files are filled page by page.
inline int64_t StoredBytes(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

// What users of other systems may want to decide by hand. The defaults leave everything to the planner.
struct SwapRules {
  int most_tensors = -1;      // swapped in all; -1: any number
  int least_gap = 0;          // in ops between the two uses; 0: any gap that something is gained by
  int ahead = -1;             // ops before its use at which a swap-in begins; -1: by time
  int group = 0;              // uses at most so many ops apart share one swap-in
  bool wait_for_out = false;  // the next op waits for the swap-out
  bool wait_for_in = false;   // a swap-in begins only when the op before its use has run
};

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_SWAP_LINK_H_
