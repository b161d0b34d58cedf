// LmsMeasureLink: how fast copies between a GPU and pinned memory are (swap_ops.h tells the figures).
//
// Each way alone, then both at once, then a small copy: the medians of a few. Copies begin small and grow until one
// takes 2 ms, is of `bytes` bytes, or has an eighth of what the device has left for the two buffers of both ways; where
// there is no room for the next size, what the last one told is the answer. Runs in a thread of its own, as the copies
// are waited for; takes about twenty times the last copy's time.

#ifndef LMS_CC_TF_RUNTIME_MEASURE_LINK_H_
#define LMS_CC_TF_RUNTIME_MEASURE_LINK_H_

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"

namespace lms {

constexpr int kLinkFigures = 5;

class MeasureLink : public tensorflow::AsyncOpKernel {
 public:
  explicit MeasureLink(tensorflow::OpKernelConstruction* construction);
  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;

 private:
  int64_t bytes_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_MEASURE_LINK_H_
