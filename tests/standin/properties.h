// What Grappler is told of the stand-in's devices: number of cores, clock, bandwidth, compute capability, as of a CUDA
// device. A CPU build says no more than "GPU", so the two functions that say it are overwritten by jumps (x86-64).

#ifndef LMS_TESTS_STANDIN_PROPERTIES_H_
#define LMS_TESTS_STANDIN_PROPERTIES_H_

namespace standin {
void DescribeDevices();
}  // namespace standin

#endif  // LMS_TESTS_STANDIN_PROPERTIES_H_
