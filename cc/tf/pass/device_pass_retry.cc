// A plan that fails is followed by one with fewer kinds of changes.

#include <algorithm>
#include <exception>
#include <string>

#include "cc/core/base/deadline.h"
#include "cc/tf/pass/device_pass.h"

namespace lms {

bool DevicePass::Rewrite(const Plan& plan, tensorflow::grappler::GrapplerItem* rewritten, MemoryProfile* profile) {
  thrown_ = nullptr;
  try {
    return ApplyAndVerify(plan, rewritten, profile);
  } catch (const TooMuch& e) {
    stages_.deadline().Check();  // of time: there is none for another plan either
    thrown_ = std::current_exception();
    return Fail(absl::ResourceExhaustedError(e.what()));
  } catch (const std::exception& e) {
    thrown_ = std::current_exception();
    return Fail(absl::InternalError(e.what()));
  }
}

bool DevicePass::Restrain(const Plan& plan) {
  Restraint::Kinds parts = {};
  const auto moves = [](const RecomputeStep& step) { return step.moves; };
  const auto has = [&parts](Change kind) -> bool& { return parts[static_cast<int>(kind)]; };
  has(Change::kOrder) = order_limit_ > 0;
  has(Change::kMoves) = std::any_of(plan.steps.begin(), plan.steps.end(), moves);
  has(Change::kEdges) = options_.schedule && restraint_.Allows(Change::kEdges);
  has(Change::kSwaps) = !plan.swap_outs.empty();
  has(Change::kRecomputations) = !std::all_of(plan.steps.begin(), plan.steps.end(), moves);
  const std::string problem = report_.reason;
  if (!restraint_.Tighten(parts)) {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    return false;
  }
  report_.warnings.push_back("a plan was given up (" + problem + "): the next one does without " + restraint_.Words());
  return true;
}

}  // namespace lms
