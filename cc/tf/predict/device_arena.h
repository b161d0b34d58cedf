// The memory of a GPU as its allocator has cut it up by now.

#ifndef LMS_CC_TF_PREDICT_DEVICE_ARENA_H_
#define LMS_CC_TF_PREDICT_DEVICE_ARENA_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/simulate/arena.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/grappler/clusters/cluster.h"

namespace lms {

// Of the device's own memory; null where the cluster (which may be null) does not know the device.
tensorflow::Allocator* AllocatorOf(const std::string& device, const tensorflow::grappler::Cluster* cluster);

// The allocator's chunks, by address.
std::vector<ArenaSettings::Piece> PiecesOf(tensorflow::BFCAllocator* allocator);

// For predictions on this device: of a GPU the chunks of its allocator, or an empty one without a limit where they
// cannot be seen; none of a CPU, whose bytes are counted as they are asked for, and of a GPU whose allocator is another
// than BFC (TF_GPU_ALLOCATOR). And once more with the largest free piece smaller than it is, by `reserve` of all that
// is free: the pieces of later steps are not quite those that are predicted, and what does not fit exactly takes more.
std::vector<ArenaSettings> DeviceArenas(const std::string& device, const tensorflow::grappler::Cluster* cluster,
                                        double reserve);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_DEVICE_ARENA_H_
