// The ops that move a tensor's bytes out of the device's memory and back.

#ifndef LMS_CC_TF_SWAP_OPS_H_
#define LMS_CC_TF_SWAP_OPS_H_

namespace lms {

constexpr char kSwapOutOp[] = "LmsSwapOut";
constexpr char kSwapInOp[] = "LmsSwapIn";

}  // namespace lms

#endif  // LMS_CC_TF_SWAP_OPS_H_
