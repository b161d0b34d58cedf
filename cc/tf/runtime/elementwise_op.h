// The op LmsElementwise: several element-wise ops in one pass over memory (elementwise.h, fuse_elementwise.h).
//
// The output is worked on in tiles of some thousand elements, which stay in the cache from step to step. An input that
// is broadcast is spread out over a tile; one whose shape is the output's is read where it lies. The output takes the
// memory of such an input where nobody else holds that. On CPUs, on the device's threads.

#ifndef LMS_CC_TF_RUNTIME_ELEMENTWISE_OP_H_
#define LMS_CC_TF_RUNTIME_ELEMENTWISE_OP_H_

namespace lms {

// Registers the op and its kernels, once. False where they are there already. Called when the library is loaded.
bool RegisterElementwise() noexcept;

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_ELEMENTWISE_OP_H_
