#include "cc/tf/report/step_details.h"

#include <cstdio>
#include <deque>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

std::string_view TypeOf(const MemGraph& graph, const MemBuffer& buffer) {
  return buffer.producer == kNone ? std::string_view() : std::string_view(graph.ops[buffer.producer].type);
}

Role RoleOf(const ImportedGraph& imported, BufferId b, Phase phase) {
  const MemBuffer& buffer = imported.graph.buffers[b];
  const std::string_view type = TypeOf(imported.graph, buffer);
  if (buffer.resident) {
    if (type == "Const" || type == "HostConst") return Role::kConstant;
    // Made once from constants, by this plan or by earlier ones.
    if (buffer.producer == kNone || !imported.graph.ops[buffer.producer].inputs.empty()) return Role::kConstant;
    const tensorflow::DataType dtype = imported.dtype_of_buffer[b];
    if (dtype == tensorflow::DT_RESOURCE || tensorflow::IsRefType(dtype) || type == "VarHandleOp") return Role::kWeight;
    return Role::kArgument;
  }
  if (buffer.escapes) return Role::kResult;
  switch (phase) {
    case Phase::kForward:
      return Role::kActivation;
    case Phase::kBackward:
      return Role::kGradient;
    default:
      return Role::kOther;
  }
}

OpKind KindOf(const MemOp& op) {
  if (op.type == kSwapOutOp) return OpKind::kSwapOut;
  if (op.type == kSwapInOp) return OpKind::kSwapIn;
  return IsOwnName(op.name) ? OpKind::kRecompute : OpKind::kRun;
}

std::string Milliseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", us / 1000);
  return text;
}

std::string Times(int count) { return count == 1 ? "" : std::to_string(count) + " times "; }

// What is done to one buffer.
struct Deed {
  int again = 0;  // recomputed
  int moved = 0;  // made later than it would have been
  int outs = 0;   // swapped
  int ins = 0;
  double cost_us = 0;
  std::string first_for;  // the op that it is first there again for
};

}  // namespace

void StepDetails::Before(const ImportedGraph& imported, const MemoryProfile& profile, const RunRecord& record) {
  const MemGraph& graph = imported.graph;
  ShownStep step{graph, profile, record, {}, {}};
  const std::vector<Phase> phases = PhasesOf(graph);
  step.ops.reserve(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    step.ops.push_back({graph.ops[i].name, graph.ops[i].type, KindOf(graph.ops[i]), phases[i]});
  }
  step.buffers.reserve(graph.buffers.size());
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    const Phase phase = buffer.producer == kNone ? Phase::kForward : phases[buffer.producer];
    step.buffers.push_back({buffer.name, TypeOf(graph, buffer), RoleOf(imported, static_cast<BufferId>(b), phase)});
  }
  maker_.Before(step);
}

void StepDetails::After(const VerifiedRun& run, const MemoryProfile& profile, const AppliedPlan& applied,
                        const Report& report) {
  const MemGraph& graph = run.imported.graph;
  const MemGraph& planned = applied.graph.graph;
  const Plan& plan = applied.planned.plan;
  std::unordered_set<std::string_view> moves;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].moves) moves.insert(applied.result.step_nodes[i]);
  }
  std::unordered_map<std::string_view, std::string_view> fetched;  // by the swap-in
  for (size_t i = 0; i < plan.swap_ins.size(); ++i) {
    fetched[applied.result.swap_in_nodes[i]] = planned.buffers[plan.swap_ins[i].buffer].name;
  }
  ShownStep step{graph, profile, run.record, {}, {}};
  std::deque<std::string> names;  // that the views are of
  step.ops.reserve(graph.ops.size());
  std::vector<bool> follows(graph.ops.size(), false);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const MemOp& op = graph.ops[i];
    ShownOp& shown = step.ops.emplace_back(ShownOp{op.name, op.type, KindOf(op), Phase::kForward});
    if (IsOwnName(op.name)) shown.name = names.emplace_back(OriginalName(op.name));
    if (moves.count(op.name) != 0) shown.kind = OpKind::kMove;
    shown.phase = maker_.PhaseOf(shown.name);
    follows[i] = IsOwnName(op.name) && shown.kind != OpKind::kSwapOut;
  }
  // What is done for an op belongs to its phase: to that of the first one that reads it.
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const auto follow = [&](OpId source) {
      if (follows[source]) step.ops[source].phase = step.ops[i].phase;
    };
    for (const BufferId b : graph.ops[i].inputs) {
      if (graph.buffers[b].producer != kNone) follow(graph.buffers[b].producer);
    }
    for (const OpId dep : graph.ops[i].deps) {
      if (graph.ops[dep].outputs.empty()) follow(dep);  // a copy of a view
    }
  }
  step.buffers.reserve(graph.buffers.size());
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    const Phase phase =
        buffer.producer == kNone ? Phase::kForward : maker_.PhaseOf(OriginalName(graph.ops[buffer.producer].name));
    ShownBuffer shown{buffer.name, TypeOf(graph, buffer), RoleOf(run.imported, static_cast<BufferId>(b), phase)};
    if (buffer.producer != kNone && IsOwnName(graph.ops[buffer.producer].name)) {
      const auto swapped = fetched.find(graph.ops[buffer.producer].name);
      shown.name = swapped != fetched.end() ? swapped->second : names.emplace_back(OriginalName(buffer.name));
    }
    step.buffers.push_back(shown);
  }
  maker_.After(step);
  DescribeFates(applied, report);
}

// The decisions of the report are in the order of the plan: its steps, its swap-outs, its swap-ins.
void StepDetails::DescribeFates(const AppliedPlan& applied, const Report& report) {
  const MemGraph& graph = applied.graph.graph;
  const Plan& plan = applied.planned.plan;
  std::vector<Deed> deeds(graph.buffers.size());
  const auto note = [&](BufferId b, double cost_us, OpId before) {
    deeds[b].cost_us += cost_us;
    if (deeds[b].first_for.empty() && before != kNone) deeds[b].first_for = graph.ops[before].name;
  };
  size_t decision = 0;
  for (const RecomputeStep& step : plan.steps) {
    const Decision& described = report.decisions.at(decision++);
    double bytes = 0;
    for (const BufferId b : step.provides) bytes += static_cast<double>(graph.buffers[b].bytes);
    for (const BufferId b : step.provides) {
      ++(step.moves ? deeds[b].moved : deeds[b].again);
      const double share = bytes > 0 ? static_cast<double>(graph.buffers[b].bytes) / bytes : 0;
      note(b, described.cost_us * share, step.before);
    }
  }
  for (const SwapOut& out : plan.swap_outs) {
    ++deeds[out.buffer].outs;
    note(out.buffer, report.decisions.at(decision++).cost_us, kNone);
  }
  for (const SwapIn& in : plan.swap_ins) {
    ++deeds[in.buffer].ins;
    note(in.buffer, report.decisions.at(decision++).cost_us, in.before);
  }
  const std::string tier = report.swap_tier == "disk" ? "disk" : "the host";
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const Deed& deed = deeds[b];
    if (deed.again + deed.moved + deed.outs == 0) continue;
    const std::string& name = graph.buffers[b].name;
    const std::string cost = Milliseconds(deed.cost_us);
    std::string reason;
    Fate fate = Fate::kMoved;
    if (deed.outs > 0) {
      fate = Fate::kSwapped;
      reason = "swapped to " + tier + " and back " + Times(deed.ins) + "for " + cost;
    } else if (deed.again > 0) {
      fate = Fate::kRecomputed;
      reason = "made again " + Times(deed.again) + "for " + cost;
    } else {
      reason = "made later, at no cost";
    }
    if (deed.outs > 0 && deed.again > 0) reason += ", made again " + Times(deed.again) + "besides";
    if (!deed.first_for.empty()) reason += ", first for " + deed.first_for;
    if (maker_.HeldAtPeakBefore(name)) {
      reason += "; it was held at the peak: " + FormatBytes(graph.buffers[b].bytes);
    }
    maker_.SetFate(name, fate, reason, deed.cost_us);
  }
}

std::shared_ptr<const ReportDetails> StepDetails::Finish(const MemGraph& graph, ReportStatus status) {
  if (!maker_.started()) return nullptr;
  for (const MemBuffer& buffer : graph.buffers) {
    std::string_view reason = buffer.keep_reason;
    if (buffer.resident) {
      reason = "there during the whole step";
    } else if (buffer.evictable) {
      reason = status == ReportStatus::kRewritten ? "could be made again: the budget is kept without"
               : status == ReportStatus::kFits    ? "could be made again: nothing has to be"
                                                  : "could be made again: that would not be enough";
    }
    maker_.SetReason(buffer.name, reason);
  }
  return maker_.Finish();
}

}  // namespace lms
