// The bytes asked of TensorFlow's CPU allocator, counted allocation by allocation.
//
// Why: the allocator's own statistics (EnableCPUAllocatorStats) leave out allocations under 256 KiB on the stock wheel
// and count whole chunks for larger ones. Here the bytes counted are `num_bytes` as the caller asked: no alignment, no
// rounding, no free lists. The same program gives the same figures.
//
// Counted: what goes through cpu_allocator() and the allocators of ProcessState (one per NUMA node where those are in
// use), and everything that takes from them: op outputs, temporaries of kernels, the scratch pads of oneDNN's kernels
// and of Eigen's backward convolutions, variables, the buffers of XLA programs on the CPU.
// Not counted: what is never asked of that allocator: graphs and protobufs, string contents, Python objects, NumPy
// arrays that a tensor shares, thread stacks, pinned host memory for a GPU; what the allocator itself holds back in its
// free lists; and what kernels take from malloc. Under oneDNN (the default of x86 wheels) these are the reordered
// filters of convolutions (one filter's size while it runs) and per-thread packing buffers (a few MB). With
// TF_ENABLE_ONEDNN_OPTS=0 Eigen's forward convolution packs its whole input so: filter area x input bytes.
//
// How: the allocator object is given a copy of its virtual table whose allocating and freeing entries count and then
// call the originals. It stays so until the process ends. Pointers that were allocated before are ignored when freed.
//
// Cost: about 40 ns for an allocation and its release, beside 65 to 135 ns of the allocator's own.
// Thread-safety: all functions. Nothing here throws.

#ifndef LMS_CC_TF_RUNTIME_MEMORY_COUNTER_H_
#define LMS_CC_TF_RUNTIME_MEMORY_COUNTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/system/step_peak.h"

namespace lms {

// Starts counting, if it has not started: from here on allocations are counted, from 0. A later call takes in
// allocators made since. Returns "", or why the figures cannot be had, or are no longer complete; a failed start
// leaves TensorFlow as it was.
std::string StartCounting();

// Sets the peak to what is in use now.
void ResetPeak();

// The most bytes in use at one time since the start or the last ResetPeak.
int64_t PeakBytes();

int64_t BytesInUse();

// A peak of its own, which ResetPeak does not touch, nor is it touched by this: one at a time. Begin returns false
// where one is open already. End returns by how much the use rose above that at Begin, at its highest; 0 where none is
// open. The figure is that of the process: what other threads allocate meanwhile is in it.
bool BeginPeakScope(bool holders = false);  // whether EndPeakScopeWithHolders() is to end it
int64_t EndPeakScope();

// A block that is held at the peak of a scope, and who asked for it: the op that TensorFlow was computing, "" where
// that is not known.
struct HeldBlock {
  int64_t bytes = 0;
  std::string op;
};

// Ends it likewise: what was allocated since its begin and is held where most of that is, largest first. For those who
// ask what a prediction has missed.
std::vector<HeldBlock> EndPeakScopeWithHolders();

// Ends it likewise. What is returned is of the step alone that ran in it, which takes tensors of the sizes `batch` from
// its iterators (cc/core/system/step_peak.h).
StepPeak EndPeakScopeOfStep(const std::vector<int64_t>& batch);

// The same of a step that takes nothing from iterators.
int64_t EndPeakScopeBesideOthers();

// Where a scope is open: the run `run` of a graph has been handed a tensor of so many bytes, which is in the block that
// begins at `block`.
void NoteTaken(const void* block, int64_t bytes, int64_t run);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_MEMORY_COUNTER_H_
