// Tensors that come to a GPU from another memory: from the host, or from another device.
//
// TensorFlow copies such a tensor once, for all of its readers there, as soon as it has been made, and lets the copy go
// after the last of them. Here the buffer that it was made in, which counts nothing on this device otherwise, takes the
// copy's bytes. Linear in the edges.

#ifndef LMS_CC_TF_IMPORT_IMPORT_ARRIVALS_H_
#define LMS_CC_TF_IMPORT_IMPORT_ARRIVALS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the buffers. Nothing changes where the planned device is a CPU: all CPUs share their memory.
void CountArrivals(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_ARRIVALS_H_
