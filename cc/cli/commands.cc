#include "cc/cli/commands.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "cc/cli/json.h"
#include "cc/core/base/bytes.h"
#include "cc/core/base/text_file.h"
#include "cc/core/graph/walk.h"
#include "cc/core/report/report.h"
#include "cc/core/search/pareto.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/simulate/transfers.h"
#include "cc/core/text/text_format.h"
#include "cc/core/text/text_reader.h"

namespace lms::cli {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The most memory that this process has taken.
int64_t MaxRssBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

int Fail(int status, const std::string& problem) {
  std::fprintf(stderr, "lms-core: %s\n", problem.c_str());
  return status;
}

std::string FileName(const std::string& path) { return path == "-" ? "<stdin>" : path; }

std::string LoadGraph(const std::string& path, bool sort, MemGraph* graph) {
  std::string text;
  const std::string problem = ReadTextFile(path, &text);
  return problem.empty() ? ReadGraph(text, FileName(path), {sort}, graph) : problem;
}

std::string LoadPlan(const std::string& path, const MemGraph& graph, Plan* plan) {
  std::string text;
  std::string problem = ReadTextFile(path, &text);
  if (problem.empty()) problem = ReadPlan(text, FileName(path), graph, plan);
  if (!problem.empty()) return problem;
  problem = ValidatePlan(graph, *plan);
  return problem.empty() ? "" : FileName(path) + ": " + problem;
}

void Line(const char* name, const std::string& value) { std::printf("%-16s %s\n", name, value.c_str()); }

std::string ShowBytes(int64_t bytes) { return std::to_string(bytes) + " bytes (" + FormatBytes(bytes) + ")"; }

std::string ShowUs(double us) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.6g us", us);
  return text;
}

std::string ShowShare(double share) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.2f%%", 100 * share);
  return text;
}

double Share(double added_us, const MemGraph& graph) {
  const double total_us = graph.TotalCostUs();
  return total_us > 0 ? added_us / total_us : 0;
}

int CountMoves(const Plan& plan) {
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const RecomputeStep& step) { return step.moves; }));
}

int CountRecomputations(const Plan& plan) { return static_cast<int>(plan.steps.size()) - CountMoves(plan); }

PlannerOptions PlannerFor(const Arguments& arguments) {
  PlannerOptions options = PlannerOptionsFor(arguments.seconds);
  options.move = arguments.moves;
  options.single_start = arguments.single_start;
  options.recompute = arguments.recompute;
  options.link = arguments.link;
  return options;
}

// What the plan adds to the step: recomputations, and with a link what waiting for its transfers costs.
double AddedUs(const MemGraph& graph, const Plan& plan, const SwapLink& link) {
  const double added_us = plan.CostUs(graph);
  return link.usable() ? added_us + SimulateTransfers(graph, plan, link).stall_us : added_us;
}

// Bytes that the plan copies out, and back.
int64_t SwappedBytes(const MemGraph& graph, const Plan& plan) {
  int64_t bytes = 0;
  for (const SwapOut& out : plan.swap_outs) bytes += graph.buffers[out.buffer].bytes;
  return bytes;
}

int64_t FetchedBytes(const MemGraph& graph, const Plan& plan) {
  int64_t bytes = 0;
  for (const SwapIn& in : plan.swap_ins) bytes += graph.buffers[in.buffer].bytes;
  return bytes;
}

int64_t BudgetBytes(const Budget& budget, const MemoryProfile& before) {
  if (budget.kind != Budget::Kind::kPercent) return budget.bytes;
  const auto activations = static_cast<double>(before.peak_bytes - before.resident_bytes);
  return before.resident_bytes + static_cast<int64_t>(std::floor(activations * budget.percent / 100));
}

int PlanCommand(const Arguments& arguments, const MemGraph& graph) {
  const MemoryProfile before = Simulate(graph, Plan());
  const bool least = arguments.budget.kind == Budget::Kind::kMin;
  int64_t budget = BudgetBytes(arguments.budget, before);
  const double start = Now();
  const PlannerResult result =
      least ? PlanForLeastPeak(graph, PlannerFor(arguments)) : PlanForLimit(graph, budget, PlannerFor(arguments));
  const double seconds = Now() - start;
  const std::string wrong = ValidatePlan(graph, result.plan);
  if (!wrong.empty()) return Fail(kInfeasible, "the planner made a plan that is not valid: " + wrong);
  const int64_t peak = Simulate(graph, result.plan).peak_bytes;
  if (least) budget = peak;
  const bool feasible = peak <= budget;
  const double added_us = AddedUs(graph, result.plan, arguments.link);
  if (feasible && !arguments.out.empty()) {
    const std::string problem = WriteTextFile(arguments.out, WritePlan(graph, result.plan));
    if (!problem.empty()) return Fail(kBadFile, problem);
  }
  if (arguments.json) {
    const std::string json = JsonObject()
                                 .Integer("ops", static_cast<int64_t>(graph.ops.size()))
                                 .Integer("buffers", static_cast<int64_t>(graph.buffers.size()))
                                 .Number("step_us", graph.TotalCostUs())
                                 .Integer("resident_bytes", before.resident_bytes)
                                 .Integer("peak_before_bytes", before.peak_bytes)
                                 .Text("budget", arguments.budget.ToString())
                                 .Integer("budget_bytes", budget)
                                 .Bool("feasible", feasible)
                                 .Integer("peak_after_bytes", peak)
                                 .Number("added_us", added_us)
                                 .Number("added_share", Share(added_us, graph))
                                 .Number("bound_us", result.bound_us)
                                 .Integer("recomputations", CountRecomputations(result.plan))
                                 .Integer("moves", CountMoves(result.plan))
                                 .Integer("swaps", static_cast<int64_t>(result.plan.swap_outs.size()))
                                 .Integer("swapped_bytes", SwappedBytes(graph, result.plan))
                                 .Integer("fetched_bytes", FetchedBytes(graph, result.plan))
                                 .Number("stall_us", result.stall_us)
                                 .Number("transfer_us", result.transfer_us)
                                 .Number("planner_seconds", seconds)
                                 .Integer("work", result.work)
                                 .Integer("max_rss_bytes", MaxRssBytes())
                                 .ToString();
    std::printf("%s\n", json.c_str());
    return feasible ? kDone : kInfeasible;
  }
  char planner[48];
  std::snprintf(planner, sizeof(planner), "%.3f s", seconds);
  Line("ops", std::to_string(graph.ops.size()));
  Line("step", ShowUs(graph.TotalCostUs()));
  Line("resident", ShowBytes(before.resident_bytes));
  Line("peak before", ShowBytes(before.peak_bytes));
  Line("budget", ShowBytes(budget));
  Line("peak after", ShowBytes(peak) + (feasible ? "" : ", over the budget: the lowest that was found"));
  Line("added time", ShowUs(added_us) + ", " + ShowShare(Share(added_us, graph)));
  if (result.bound_us > 0) {
    Line("at least", ShowUs(result.bound_us) + ", " + ShowShare(Share(result.bound_us, graph)) + ", whatever the plan");
  }
  Line("recomputations", std::to_string(CountRecomputations(result.plan)));
  Line("moves", std::to_string(CountMoves(result.plan)));
  if (arguments.link.usable()) {
    Line("swapped", std::to_string(result.plan.swap_outs.size()) + ", in " +
                        std::to_string(result.plan.swap_ins.size()) + " times; " + ShowUs(result.transfer_us) +
                        " of transfers, " + ShowUs(result.stall_us) + " waited for");
  }
  Line("planner", planner);
  Line("process", ShowBytes(MaxRssBytes()));
  return feasible ? kDone : kInfeasible;
}

struct Moment {
  const char* what;
  const std::string& op;
  int64_t bytes;
};

// Everything that happens during the step, in order.
std::vector<Moment> Timeline(const MemGraph& graph, const Plan& plan, const MemoryProfile& profile) {
  std::vector<Moment> moments;
  Walk(graph, plan, [&](const PlanEvent& event) {
    const int i = event.index;
    switch (event.kind) {
      case PlanEvent::Kind::kSwapIn:
        moments.push_back({"swap in", graph.buffers[SwappedAt(plan, event)].name, profile.swap_in_bytes[i]});
        break;
      case PlanEvent::Kind::kStep:
        moments.push_back(
            {plan.steps[i].moves ? "move" : "recompute", graph.ops[OpAt(plan, event)].name, profile.step_bytes[i]});
        break;
      case PlanEvent::Kind::kSwapOut:  // takes no memory
        break;
      default:
        moments.push_back({event.Runs() ? "op" : "moved", graph.ops[i].name, profile.op_bytes[i]});
    }
  });
  return moments;
}

int SimulateCommand(const Arguments& arguments, const MemGraph& graph) {
  Plan plan;
  if (!arguments.plan.empty()) {
    const std::string problem = LoadPlan(arguments.plan, graph, &plan);
    if (!problem.empty()) return Fail(kBadFile, problem);
  }
  const MemoryProfile profile = Simulate(graph, plan);
  const std::vector<Moment> timeline = Timeline(graph, plan, profile);
  const std::string peak_op = profile.peak_op == kNone ? "" : graph.ops[profile.peak_op].name;
  const double added_us = AddedUs(graph, plan, arguments.link);
  if (arguments.json) {
    JsonObject json;
    json.Integer("resident_bytes", profile.resident_bytes)
        .Integer("peak_bytes", profile.peak_bytes)
        .Text("peak_op", peak_op)
        .Integer("peak_position", profile.peak_op)
        .Number("added_us", added_us)
        .Number("added_share", Share(added_us, graph))
        .Integer("recomputations", CountRecomputations(plan))
        .Integer("moves", CountMoves(plan))
        .Integer("swaps", static_cast<int64_t>(plan.swap_outs.size()));
    if (arguments.timeline) {
      std::vector<JsonObject> moments;
      for (const Moment& moment : timeline) {
        moments.push_back(JsonObject().Text("what", moment.what).Text("op", moment.op).Integer("bytes", moment.bytes));
      }
      json.List("timeline", moments);
    }
    std::printf("%s\n", json.ToString().c_str());
    return kDone;
  }
  Line("resident", ShowBytes(profile.resident_bytes));
  Line("peak", ShowBytes(profile.peak_bytes));
  Line("at", profile.peak_op == kNone ? "no op" : "op " + std::to_string(profile.peak_op) + ", " + TokenText(peak_op));
  Line("added time", ShowUs(added_us) + ", " + ShowShare(Share(added_us, graph)));
  Line("recomputations", std::to_string(CountRecomputations(plan)));
  Line("moves", std::to_string(CountMoves(plan)));
  if (!plan.swap_outs.empty()) Line("swapped", std::to_string(plan.swap_outs.size()));
  if (arguments.timeline) {
    std::printf("\n%16s  %-9s  %s\n", "bytes", "", "op");
    for (const Moment& moment : timeline) {
      std::printf("%16lld  %-9s  %s\n", static_cast<long long>(moment.bytes), moment.what,
                  TokenText(moment.op).c_str());
    }
  }
  return kDone;
}

int ShowCommand(const Arguments& arguments, const MemGraph& graph) {
  const MemoryProfile profile = Simulate(graph, Plan());
  int64_t allocated = 0;
  int64_t evictable_bytes = 0;
  int64_t evictable = 0;
  for (const MemBuffer& buffer : graph.buffers) {
    if (!buffer.resident) allocated += buffer.bytes;
    if (buffer.evictable) evictable_bytes += buffer.bytes;
    if (buffer.evictable) ++evictable;
  }
  const int64_t recomputable =
      std::count_if(graph.ops.begin(), graph.ops.end(), [](const MemOp& op) { return op.recomputable; });
  const std::vector<KeptTensors> kept = SummariseKept(graph);
  if (arguments.json) {
    std::vector<JsonObject> reasons;
    for (const KeptTensors& entry : kept) {
      reasons.push_back(
          JsonObject().Text("reason", entry.reason).Integer("buffers", entry.tensors).Integer("bytes", entry.bytes));
    }
    const std::string json = JsonObject()
                                 .Integer("ops", static_cast<int64_t>(graph.ops.size()))
                                 .Integer("recomputable_ops", recomputable)
                                 .Integer("buffers", static_cast<int64_t>(graph.buffers.size()))
                                 .Integer("evictable_buffers", evictable)
                                 .Number("step_us", graph.TotalCostUs())
                                 .Integer("resident_bytes", profile.resident_bytes)
                                 .Integer("allocated_bytes", allocated)
                                 .Integer("evictable_bytes", evictable_bytes)
                                 .Integer("peak_bytes", profile.peak_bytes)
                                 .Integer("lower_bound_bytes", LowerBoundBytes(graph))
                                 .List("kept", reasons)
                                 .ToString();
    std::printf("%s\n", json.c_str());
    return kDone;
  }
  Line("ops", std::to_string(graph.ops.size()) + ", " + std::to_string(recomputable) + " may be recomputed");
  Line("buffers", std::to_string(graph.buffers.size()) + ", " + std::to_string(evictable) + " may be evicted");
  Line("step", ShowUs(graph.TotalCostUs()));
  Line("resident", ShowBytes(profile.resident_bytes));
  Line("allocated", ShowBytes(allocated));
  Line("evictable", ShowBytes(evictable_bytes));
  Line("peak", ShowBytes(profile.peak_bytes));
  Line("lower bound", ShowBytes(LowerBoundBytes(graph)) + ", what a single op needs");
  if (kept.empty()) return kDone;
  std::printf("\nnot evicted\n%16s  %8s  %s\n", "bytes", "buffers", "reason");
  for (const KeptTensors& entry : kept) {
    std::printf("%16lld  %8d  %s\n", static_cast<long long>(entry.bytes), entry.tensors,
                TokenText(entry.reason).c_str());
  }
  return kDone;
}

int SortCommand(const Arguments& arguments, const MemGraph& graph) {
  const std::string problem = WriteTextFile(arguments.out.empty() ? "-" : arguments.out, WriteGraph(graph));
  return problem.empty() ? kDone : Fail(kBadFile, problem);
}

int ParetoCommand(const Arguments& arguments, const MemGraph& graph) {
  ParetoOptions options;
  options.points = arguments.points;
  options.planner = PlannerFor(arguments);
  const double start = Now();
  const std::vector<ParetoPoint> table = ParetoTable(graph, options);
  const double seconds = Now() - start;
  if (arguments.json) {
    std::vector<JsonObject> points;
    for (const ParetoPoint& point : table) {
      points.push_back(JsonObject()
                           .Integer("budget_bytes", point.budget_bytes)
                           .Integer("peak_bytes", point.peak_bytes)
                           .Number("added_us", point.added_us)
                           .Number("added_share", Share(point.added_us, graph))
                           .Integer("recomputations", CountRecomputations(point.plan))
                           .Integer("moves", CountMoves(point.plan)));
    }
    const std::string json = JsonObject()
                                 .Number("step_us", graph.TotalCostUs())
                                 .Integer("resident_bytes", graph.ResidentBytes())
                                 .Integer("peak_before_bytes", Simulate(graph, Plan()).peak_bytes)
                                 .Number("planner_seconds", seconds)
                                 .Integer("max_rss_bytes", MaxRssBytes())
                                 .List("points", points)
                                 .ToString();
    std::printf("%s\n", json.c_str());
    return kDone;
  }
  std::printf("%16s  %16s  %14s  %9s  %14s  %6s\n", "budget", "peak", "added us", "added", "recomputations", "moves");
  for (const ParetoPoint& point : table) {
    std::printf("%16lld  %16lld  %14.6g  %9s  %14d  %6d\n", static_cast<long long>(point.budget_bytes),
                static_cast<long long>(point.peak_bytes), point.added_us,
                ShowShare(Share(point.added_us, graph)).c_str(), CountRecomputations(point.plan),
                CountMoves(point.plan));
  }
  return kDone;
}

}  // namespace

int RunCommand(const Arguments& arguments) {
  MemGraph graph;
  const bool sort = arguments.sort || arguments.command == "sort";
  const std::string problem = LoadGraph(arguments.graph, sort, &graph);
  if (!problem.empty()) return Fail(kBadFile, problem);
  if (arguments.command == "simulate") return SimulateCommand(arguments, graph);
  if (arguments.command == "show") return ShowCommand(arguments, graph);
  if (arguments.command == "sort") return SortCommand(arguments, graph);
  if (graph.ops.empty()) return Fail(kBadFile, FileName(arguments.graph) + ": there is no op, and so nothing to plan");
  return arguments.command == "plan" ? PlanCommand(arguments, graph) : ParetoCommand(arguments, graph);
}

}  // namespace lms::cli
