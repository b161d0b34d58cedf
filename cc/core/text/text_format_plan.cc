// Plans as text.

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/base/sort_unique.h"
#include "cc/core/text/text_format.h"
#include "cc/core/text/text_reader.h"

namespace lms {
namespace {

constexpr char kStatements[] = "; there are recompute, move, swap-out and swap-in";

// What a step provides where the plan's text does not say.
std::vector<BufferId> EvictableOutputs(const MemGraph& graph, OpId op) {
  std::vector<BufferId> outputs;
  if (!graph.ops[op].recomputable) return outputs;
  for (const BufferId b : graph.ops[op].outputs) {
    if (graph.buffers[b].evictable) outputs.push_back(b);
  }
  SortUnique(&outputs);
  return outputs;
}

class PlanReader {
 public:
  PlanReader(std::string_view text, const std::string& file, const MemGraph& graph) : text_(text, file), graph_(graph) {
    for (size_t i = 0; i < graph.ops.size(); ++i) ops_.emplace(graph.ops[i].name, static_cast<OpId>(i));
    for (size_t b = 0; b < graph.buffers.size(); ++b) buffers_.emplace(graph.buffers[b].name, static_cast<BufferId>(b));
  }

  std::string Run(Plan* plan) {
    if (!text_.ReadHeader("lms-plan")) return text_.error();
    while (text_.Next()) {
      const bool swap = text_.tokens()[0].rfind("swap-", 0) == 0;
      if (swap ? !ReadSwap() : !ReadStep()) return text_.error();
    }
    if (text_.error().empty()) SortSteps(plan);
    if (text_.error().empty()) SortSwaps(plan);
    return text_.error();
  }

 private:
  struct Line {
    RecomputeStep step;
    int line;
  };
  struct Swap {
    BufferId buffer = kNone;
    OpId op = kNone;
    int line = 0;
  };

  bool FindOp(std::string_view name, OpId* op) {
    const auto found = ops_.find(name);
    if (found == ops_.end()) return text_.Fail("the graph has no op " + Shown(name));
    *op = found->second;
    return true;
  }

  bool FindBuffer(std::string_view name, BufferId* buffer) {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return text_.Fail("the graph has no buffer " + Shown(name));
    *buffer = found->second;
    return true;
  }

  bool ReadSwap() {
    const std::vector<std::string_view>& t = text_.tokens();
    const bool out = t[0] == "swap-out";
    if (!out && t[0] != "swap-in") return text_.Fail("unknown statement " + Shown(t[0]) + kStatements);
    if (t.size() != 4 || t[2] != (out ? "by" : "before")) {
      return text_.Fail(out ? "it must read: swap-out BUFFER by OP" : "it must read: swap-in BUFFER before OP");
    }
    Swap swap;
    swap.line = text_.line();
    if (!FindBuffer(t[1], &swap.buffer) || !FindOp(t[3], &swap.op)) return false;
    (out ? outs_ : ins_).push_back(swap);
    return true;
  }

  // By op and buffer; false where two of them are the same.
  bool Sort(std::vector<Swap>* swaps) {
    const auto key = [](const Swap& s) { return std::make_pair(s.op, s.buffer); };
    std::stable_sort(swaps->begin(), swaps->end(), [&](const Swap& a, const Swap& b) { return key(a) < key(b); });
    const auto twice = std::adjacent_find(swaps->begin(), swaps->end(),
                                          [&](const Swap& a, const Swap& b) { return key(a) == key(b); });
    if (twice == swaps->end()) return true;
    text_.FailAt((twice + 1)->line, "the same swap as in line " + std::to_string(twice->line));
    return false;
  }

  void SortSwaps(Plan* plan) {
    if (!Sort(&outs_) || !Sort(&ins_)) return;
    plan->swap_outs.clear();
    plan->swap_ins.clear();
    for (const Swap& swap : outs_) plan->swap_outs.push_back({swap.op, swap.buffer});
    for (const Swap& swap : ins_) plan->swap_ins.push_back({swap.op, swap.buffer});
  }

  bool ReadStep() {
    const std::vector<std::string_view>& t = text_.tokens();
    if (t[0] != "recompute" && t[0] != "move") {
      return text_.Fail("unknown statement " + Shown(t[0]) + kStatements);
    }
    if (t.size() < 4 || t[2] != "before" || (t.size() > 4 && (t[4] != "provides" || t.size() == 5))) {
      return text_.Fail("it must read: " + std::string(t[0]) + " OP before OP [provides BUFFER...]");
    }
    RecomputeStep step;
    step.moves = t[0] == "move";
    if (!FindOp(t[1], &step.op) || !FindOp(t[3], &step.before)) return false;
    for (size_t i = 5; i < t.size(); ++i) {
      BufferId buffer = kNone;
      if (!FindBuffer(t[i], &buffer)) return false;
      if (graph_.buffers[buffer].producer != step.op) return text_.Fail(Shown(t[1]) + " does not make " + Shown(t[i]));
      step.provides.push_back(buffer);
    }
    if (t.size() == 4) step.provides = EvictableOutputs(graph_, step.op);
    SortUnique(&step.provides);
    lines_.push_back({std::move(step), text_.line()});
    return true;
  }

  void SortSteps(Plan* plan) {
    const auto key = [](const Line& l) { return std::make_pair(l.step.before, l.step.op); };
    std::stable_sort(lines_.begin(), lines_.end(), [&](const Line& a, const Line& b) { return key(a) < key(b); });
    const auto twice = std::adjacent_find(lines_.begin(), lines_.end(),
                                          [&](const Line& a, const Line& b) { return key(a) == key(b); });
    if (twice != lines_.end()) {
      text_.FailAt((twice + 1)->line, "the same step as in line " + std::to_string(twice->line));
      return;
    }
    plan->steps.clear();
    for (Line& line : lines_) plan->steps.push_back(std::move(line.step));
  }

  TextReader text_;
  const MemGraph& graph_;
  std::unordered_map<std::string_view, OpId> ops_;
  std::unordered_map<std::string_view, BufferId> buffers_;
  std::vector<Line> lines_;
  std::vector<Swap> outs_;
  std::vector<Swap> ins_;
};

}  // namespace

std::string ReadPlan(std::string_view text, const std::string& file, const MemGraph& graph, Plan* plan) {
  return PlanReader(text, file, graph).Run(plan);
}

std::string WritePlan(const MemGraph& graph, const Plan& plan) {
  std::string text = "lms-plan 1\n";
  for (const RecomputeStep& step : plan.steps) {
    text.append(step.moves ? "move " : "recompute ").append(TokenText(graph.ops[step.op].name));
    text.append(" before ").append(TokenText(graph.ops[step.before].name));
    std::vector<BufferId> provides = step.provides;
    SortUnique(&provides);
    if (provides != EvictableOutputs(graph, step.op)) {
      text.append(" provides");
      for (const BufferId b : provides) text.append(" ").append(TokenText(graph.buffers[b].name));
    }
    text.append("\n");
  }
  for (const SwapOut& swap : plan.swap_outs) {
    text.append("swap-out ").append(TokenText(graph.buffers[swap.buffer].name));
    text.append(" by ").append(TokenText(graph.ops[swap.by].name)).append("\n");
  }
  for (const SwapIn& swap : plan.swap_ins) {
    text.append("swap-in ").append(TokenText(graph.buffers[swap.buffer].name));
    text.append(" before ").append(TokenText(graph.ops[swap.before].name)).append("\n");
  }
  return text;
}

}  // namespace lms
