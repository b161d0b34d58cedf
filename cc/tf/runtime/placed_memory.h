// Tensors at places that were thought out before the step (core/simulate/places.h), out of TensorFlow's own allocator.
//
// A BFC allocator is given a virtual table of its own (core/system/virtual_table.h). When a step with places asks for
// the first tensor that has one, the allocator's own code is asked for the step's blocks, and tensors are handed out
// from them: which op of which run of a graph asks TensorFlow notes for every request. When the last of them is
// released, the blocks go back. What has no place, or whose place is not free, since ops ran in another order or two
// steps run at once, comes from the allocator as ever, or, where that has no room, from what is free of the blocks. So
// a step gets all memory that it would have got without, in one way or another, and no two tensors ever overlap: places
// are wishes. Where there is no room at all while blocks are held, a request waits for what other ops release, as those
// of a GPU do in TensorFlow by itself: an op that begins earlier than foretold takes its turn. Before a tensor takes a
// place that is meant for others it waits a moment for its own.
//
// To TensorFlow a block is one chunk in use: its statistics count all of it.
//
// Thread-safety: all functions.

#ifndef LMS_CC_TF_RUNTIME_PLACED_MEMORY_H_
#define LMS_CC_TF_RUNTIME_PLACED_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/block_space.h"

namespace tsl {
class BFCAllocator;
}  // namespace tsl

namespace lms {

struct PlacedStep {
  struct Tensor {
    std::string op;
    int64_t bytes = 0;  // in units of 256
    Place place;
  };
  std::vector<int64_t> blocks;
  std::vector<Tensor> tensors;
};

// "" or why this allocator's requests cannot be seen to. The first call gives it the table.
std::string WhyNoPlaces(tsl::BFCAllocator* allocator);

// Keeps these places, and returns a number for them that no others have. Of an allocator the last kMostPlacedSteps are
// kept. Requires that there is no reason against it.
int64_t PlaceStep(tsl::BFCAllocator* allocator, PlacedStep step);
inline constexpr size_t kMostPlacedSteps = 256;

// What this run of a graph asks for from now on has the places of that number (places_op.h). Of an allocator the last
// kMostPlacedRuns are known.
void NotePlacedRun(int64_t run, int64_t number);
inline constexpr size_t kMostPlacedRuns = 64;

// Of all allocators, since the process began.
struct PlacedCounts {
  int64_t placed = 0;      // tensors at their places
  int64_t displaced = 0;   // whose places were not free
  int64_t overflowed = 0;  // requests for which there was no room but in a block
  int64_t refused = 0;     // blocks that the allocator had no room for
};
PlacedCounts CountsOfPlaces();

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_PLACED_MEMORY_H_
