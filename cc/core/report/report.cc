#include "cc/core/report/report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lms {
namespace {

Decision Swap(const char* kind, const MemGraph& graph, BufferId buffer, OpId at, double transfer_us,
              const SwapLink& link) {
  const MemBuffer& swapped = graph.buffers[buffer];
  Decision decision;
  decision.kind = kind;
  decision.op = swapped.producer == kNone ? swapped.name : graph.ops[swapped.producer].name;
  if (swapped.producer != kNone) decision.op_type = graph.ops[swapped.producer].type;
  decision.tensor_bytes = swapped.bytes;
  decision.priced_by.clear();  // no op runs again
  decision.position = at;
  decision.before = graph.ops[at].name;
  decision.transfer_us = transfer_us;
  decision.cost_us = static_cast<double>(swapped.bytes) * link.compute_us_per_byte;
  return decision;
}

void Finish(size_t i, const std::vector<double>& stalls, const std::vector<std::string>& triggers, Decision* decision) {
  if (i < stalls.size()) decision->stall_us = stalls[i];
  decision->cost_us += decision->stall_us;
  if (i < triggers.size()) decision->trigger = triggers[i];
}

}  // namespace

const char* StatusName(ReportStatus status) {
  switch (status) {
    case ReportStatus::kRewritten:
      return "rewritten";
    case ReportStatus::kFits:
      return "fits";
    case ReportStatus::kSkipped:
      return "skipped";
    case ReportStatus::kInfeasible:
      return "infeasible";
    case ReportStatus::kFailed:
      return "failed";
  }
  return "failed";
}

int64_t PlannedStep::MemoryBytes() const {
  int64_t bytes =
      static_cast<int64_t>(graph.ops.capacity() * sizeof(MemOp) + graph.buffers.capacity() * sizeof(MemBuffer));
  for (const MemOp& op : graph.ops) {
    bytes += static_cast<int64_t>(
        (op.deps.capacity() + op.inputs.capacity() + op.outputs.capacity() + op.forwardable.capacity()) *
        sizeof(int32_t));
  }
  for (const MemBuffer& buffer : graph.buffers) {
    bytes += static_cast<int64_t>(buffer.overwritten_by.capacity() * sizeof(OpId));
  }
  return bytes;
}

void ForgetNames(MemGraph* graph) {
  for (MemOp& op : graph->ops) {
    op.name = std::string();
    op.type = std::string();
    op.keep_reason = std::string();
  }
  for (MemBuffer& buffer : graph->buffers) {
    buffer.name = std::string();
    buffer.keep_reason = std::string();
  }
}

std::vector<KeptTensors> SummariseKept(const MemGraph& graph, bool swapping) {
  std::map<std::string, KeptTensors> by_reason;
  for (const MemBuffer& buffer : graph.buffers) {
    if (buffer.resident || buffer.evictable || (swapping && buffer.swappable)) continue;
    KeptTensors& kept = by_reason[buffer.keep_reason];
    kept.reason = buffer.keep_reason;
    ++kept.tensors;
    kept.bytes += buffer.bytes;
  }
  std::vector<KeptTensors> result;
  for (auto& [reason, kept] : by_reason) result.push_back(std::move(kept));
  std::sort(result.begin(), result.end(), [](const KeptTensors& a, const KeptTensors& b) {
    return std::tie(b.bytes, a.reason) < std::tie(a.bytes, b.reason);
  });
  return result;
}

std::vector<Decision> DescribePlan(const MemGraph& graph, const Plan& plan, const std::vector<std::string>& triggers) {
  std::vector<Decision> decisions;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const RecomputeStep& step = plan.steps[i];
    Decision decision;
    decision.kind = step.moves ? "move" : "recompute";
    decision.op = graph.ops[step.op].name;
    decision.op_type = graph.ops[step.op].type;
    for (const BufferId b : step.provides) decision.tensor_bytes += graph.buffers[b].bytes;
    decision.cost_us = step.moves ? 0 : graph.ops[step.op].cost_us;
    decision.position = step.before;
    decision.before = graph.ops[step.before].name;
    if (i < triggers.size()) decision.trigger = triggers[i];
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::vector<Decision> DescribeSwaps(const MemGraph& graph, const Plan& plan, const SwapLink& link,
                                    const Transfers& transfers, const std::vector<std::string>& out_triggers,
                                    const std::vector<std::string>& in_triggers) {
  std::vector<Decision> decisions;
  decisions.reserve(plan.swap_outs.size() + plan.swap_ins.size());
  for (size_t i = 0; i < plan.swap_outs.size(); ++i) {
    const SwapOut& out = plan.swap_outs[i];
    const double us = link.OutUs(graph.buffers[out.buffer].bytes);
    decisions.push_back(Swap("swap_out", graph, out.buffer, out.by, us, link));
    Finish(i, transfers.out_stall_us, out_triggers, &decisions.back());
  }
  for (size_t i = 0; i < plan.swap_ins.size(); ++i) {
    const SwapIn& in = plan.swap_ins[i];
    const double us = link.InUs(graph.buffers[in.buffer].bytes);
    decisions.push_back(Swap("swap_in", graph, in.buffer, in.before, us, link));
    Finish(i, transfers.in_stall_us, in_triggers, &decisions.back());
  }
  return decisions;
}

void NoteTransfers(const Transfers& transfers, Report* report) {
  report->swapped_bytes = transfers.out_bytes;
  report->swap_hidden = transfers.transfer_us > 0 ? transfers.Hidden() : 0;
  report->swap_stall = transfers.stall_us / 1e6;
}

}  // namespace lms
