// What one step holds at its peak, out of all that a process allocates while the step runs.
//
// Beside a step its input pipeline works: batches are made ahead, in other threads, and one that was made before the
// step began is handed to it. By how much the bytes in use rise is therefore off by whole batches. Here the allocations
// and releases of that time are told apart:
// - what the step's own run of the graph asked for counts, and so does what nobody's name is on and is gone at the end
//   (a kernel's scratch memory);
// - the batch that it takes counts from when it is there, or from the start, to its release. Which blocks these are the
//   graph says where it has an op for it (cc/tf/runtime/size_record.h); else each is the oldest of its size that is
//   released;
// - what other runs (a pipeline's functions) asked for, and later batches, do not count;
// - where the step puts a block in the place of an older one of the same size (a variable that was copied when it was
//   written), the older one is taken off when it goes.
//
// Complexity: O(n log n) in the events. Thread-safety: none needed, it is a function.

#ifndef LMS_CC_CORE_SYSTEM_STEP_PEAK_H_
#define LMS_CC_CORE_SYSTEM_STEP_PEAK_H_

#include <cstdint>
#include <vector>

namespace lms {

struct AllocationEvent {
  const void* pointer = nullptr;
  int64_t bytes = 0;  // above 0: allocated; below: released
  int64_t run = 0;    // of allocations: which run of a graph asked for it; 0: not known
  int64_t taken = 0;  // above 0, of neither kind: the run was handed this block, with a tensor of so many bytes in it
};

struct StepPeak {
  int64_t bytes = 0;     // above what the step found when it began
  bool complete = true;  // have all parts of the batch been found?
};

// `events`: in the order in which they happened; `batch`: the sizes of the tensors that the step takes from iterators.
// The step's own run is the one that is handed a batch, else the one that asks for most.
StepPeak PeakOfStep(const std::vector<AllocationEvent>& events, const std::vector<int64_t>& batch);

// The same of a step that takes nothing from iterators, in a loop of its program's own: by how much the bytes in use
// rise, but for what others (a pipeline that fills its buffers again) make meanwhile and keep.
int64_t PeakBesideOthers(const std::vector<AllocationEvent>& events);

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_STEP_PEAK_H_
