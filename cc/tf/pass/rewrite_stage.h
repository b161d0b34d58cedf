// The plan is carried out, and the new graph is verified.

#ifndef LMS_CC_TF_PASS_REWRITE_STAGE_H_
#define LMS_CC_TF_PASS_REWRITE_STAGE_H_

#include <exception>

#include "absl/status/status.h"
#include "cc/core/search/restraint.h"
#include "cc/core/simulate/liveness.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/plan_stage.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/verify/verify.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct RewrittenStep {
  absl::Status status;        // of both stages
  std::exception_ptr thrown;  // what it was made of; null: it was no exception
  tensorflow::grappler::GrapplerItem item;
  RewriteResult result;  // also of what failed
  MemoryProfile profile;
  VerifiedRun verified;  // what that was predicted with
};

// Stages "rewrite" and "verify". What is thrown makes the status one of a failure, but for the deadline's TooMuch.
RewrittenStep RewriteAndVerify(const DeviceContext& context, const ReadStep& read, const Candidates& candidates,
                               const DevicePlan& planned, const Restraint& restraint);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_REWRITE_STAGE_H_
