// _CopyFromGpuToHost and _CopyFromHostToGpu, which Grappler's own memory optimizer puts into steps that it takes to be
// above the device's memory. Only TensorFlow's CUDA build has them; without them such a graph is not valid.

#ifndef LMS_TESTS_STANDIN_GRAPPLER_SWAP_H_
#define LMS_TESTS_STANDIN_GRAPPLER_SWAP_H_

namespace standin {
void RegisterGrapplerSwap();
}  // namespace standin

#endif  // LMS_TESTS_STANDIN_GRAPPLER_SWAP_H_
