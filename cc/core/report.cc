#include "cc/core/report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lms {

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

std::vector<KeptTensors> SummariseKept(const MemGraph& graph) {
  std::map<std::string, KeptTensors> by_reason;
  for (const MemBuffer& buffer : graph.buffers) {
    if (buffer.resident || buffer.evictable) continue;
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

}  // namespace lms
