#include "cc/tf/pass/rewrite_stage.h"

#include "cc/core/base/deadline.h"

namespace lms {
namespace {

absl::Status Rewrite(const DeviceContext& context, const ReadStep& read, const Candidates& candidates,
                     const DevicePlan& planned, const Restraint& restraint, RewrittenStep* rewritten) {
  context.Enter("rewrite");
  RewriteOptions ways;
  // What takes the place of a swapped tensor must wait until it is out, whatever else is enforced.
  ways.enforce_order =
      (context.options.reorder && restraint.Allows(Change::kEdges)) || !planned.result.plan.swap_outs.empty();
  ways.order_limit_bytes = planned.order_limit;
  ways.deadline = context.deadline();
  ways.order_bytes = context.bounds().bytes / 4;
  ways.serialize_bytes = context.options.serialize_bytes;
  ways.swap = candidates.target;
  return RewriteGraph(planned.GraphOf(candidates), read.index, planned.result.plan, ways, &rewritten->item.graph,
                      &rewritten->result);
}

absl::Status Verify(const DeviceContext& context, const ReadStep& read, const Candidates& candidates,
                    RewrittenStep* rewritten) {
  context.Enter("verify");
  const ImportedGraph& imported = candidates.imported;
  rewritten->verified.iterations_apart = context.options.reorder;
  rewritten->verified.may_place = read.may_place;
  const std::string device = imported.other_devices.empty() ? "" : imported.device;
  return VerifyRewrite(context.item, read.index, rewritten->item, context.facts.sizes, context.threads,
                       candidates.swap.link, &rewritten->profile, context.deadline(), device, &rewritten->verified,
                       read.arenas);
}

}  // namespace

RewrittenStep RewriteAndVerify(const DeviceContext& context, const ReadStep& read, const Candidates& candidates,
                               const DevicePlan& planned, const Restraint& restraint) {
  RewrittenStep rewritten;
  rewritten.item = context.item;
  try {
    rewritten.status = Rewrite(context, read, candidates, planned, restraint, &rewritten);
    if (rewritten.status.ok()) rewritten.status = Verify(context, read, candidates, &rewritten);
  } catch (const TooMuch& e) {
    context.deadline().Check();  // of time: there is none for another plan either
    rewritten.thrown = std::current_exception();
    rewritten.status = absl::ResourceExhaustedError(e.what());
  } catch (const std::exception& e) {
    rewritten.thrown = std::current_exception();
    rewritten.status = absl::InternalError(e.what());
  }
  return rewritten;
}

}  // namespace lms
