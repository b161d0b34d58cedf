// What TensorFlow's BFC allocator splits off a chunk that is larger than what was asked for.
//
// By itself it hands the whole chunk out unless that is twice as large, or 128 MiB larger: a tensor may take up to
// twice its bytes. The share of its limit that may be lost so is an option of the allocator (`fragmentation_fraction`;
// users of GPUs may set GPUOptions.experimental.internal_fragmentation_fraction). It is read at each allocation, so a
// pool that is there already can be told to split exactly.

#ifndef LMS_CC_TF_PREDICT_CHUNK_SPLITS_H_
#define LMS_CC_TF_PREDICT_CHUNK_SPLITS_H_

#include <cstdint>

#include "tensorflow/core/common_runtime/bfc_allocator.h"

namespace lms {

// What is left of a chunk is split off from so many bytes on, or where it is as large as what was asked for.
int64_t LeastSplitOff(tensorflow::BFCAllocator* allocator);

// From now on the allocator hands out what is asked for, in its units of 256 bytes, until the process ends. Where the
// user has set the share, it stays as it is. Chunks that are in use keep their sizes. Thread-safe.
void SplitExactly(tensorflow::BFCAllocator* allocator);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_CHUNK_SPLITS_H_
