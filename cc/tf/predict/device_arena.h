// The memory of a device as its allocator has cut it up by now.

#ifndef LMS_CC_TF_PREDICT_DEVICE_ARENA_H_
#define LMS_CC_TF_PREDICT_DEVICE_ARENA_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/simulate/arena.h"
#include "cc/tf/predict/cpu_pool.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/grappler/clusters/cluster.h"

namespace lms {

// Of the device's own memory. Where the cluster (which may be null) does not know the device: a CPU's is that of the
// process, another's null.
tensorflow::Allocator* AllocatorOf(const std::string& device, const tensorflow::grappler::Cluster* cluster);

// The allocator whose chunks count on the device: a GPU's, or the limited pool of a CPU; null where it has neither.
tensorflow::BFCAllocator* ChunksOf(const std::string& device, const tensorflow::grappler::Cluster* cluster);

// Has the allocator of a GPU, or the limited pool of a CPU, hand out chunks no larger than what is asked for
// (chunk_splits.h), from now on. Does nothing where the device has neither.
void HandOutExactly(const std::string& device, const tensorflow::grappler::Cluster* cluster);

// The allocator's chunks, by address.
std::vector<ArenaSettings::Piece> PiecesOf(tensorflow::BFCAllocator* allocator);

// The pool as it is now.
ArenaSettings ArenaOf(const CpuPool& pool);

// For predictions on this device: of a GPU the chunks of its allocator, or an empty one without a limit where they
// cannot be seen; none of a GPU whose allocator is another than BFC (TF_GPU_ALLOCATOR). Of a CPU the chunks of its pool
// where that has a limit (cpu_pool.h) and the budget is what it has (`pool_counts`): any other is in bytes as they are
// asked for, and so is what is predicted for it. And once more with the largest free piece smaller than it is,
// by `reserve` of all that is free, or twice that where chunks are not split exactly: the pieces of later steps are not
// quite those that are predicted, and what does not fit exactly takes more.
std::vector<ArenaSettings> DeviceArenas(const std::string& device, const tensorflow::grappler::Cluster* cluster,
                                        double reserve, bool pool_counts);

// The same of a CPU's pool that is to be made, of `bytes` in one region. `exact`: as after HandOutExactly().
std::vector<ArenaSettings> ArenasOfPool(int64_t bytes, bool exact, double reserve);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_DEVICE_ARENA_H_
