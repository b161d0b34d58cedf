#include "cc/core/search/keep_cut.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cc/core/base/max_flow.h"

namespace lms {
namespace {

// Of the costs of everything: what a byte costs where only bytes count, or only time.
constexpr double kLittle = 1e-6;

class Cutter {
 public:
  explicit Cutter(const KeepProblem& problem)
      : problem_(problem), flow_(2 + static_cast<int>(problem.ops.size() + problem.tensors.size())) {
    for (size_t o = 0; o < problem.ops.size(); ++o) {
      const KeepProblem::Op& op = problem.ops[o];
      flow_.AddEdge(kSource, OpNode(o), op.recomputable ? op.cost_us : MaxFlow::kUnlimited);
      for (const int input : op.inputs) flow_.AddEdge(TensorNode(input), OpNode(o), MaxFlow::kUnlimited);
    }
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      const KeepProblem::Tensor& tensor = problem.tensors[t];
      const int from = tensor.producer < 0 ? kSource : OpNode(tensor.producer);
      keeps_.push_back(flow_.AddEdge(from, TensorNode(t), MaxFlow::kUnlimited));
    }
    for (const int wanted : problem.wanted) flow_.AddEdge(TensorNode(wanted), kSink, MaxFlow::kUnlimited);
  }

  // The cheapest choice where a byte costs so many microseconds.
  std::optional<KeepCut> Cut(double us_per_byte) {
    for (size_t t = 0; t < keeps_.size(); ++t) {
      const KeepProblem::Tensor& tensor = problem_.tensors[t];
      flow_.SetCapacity(keeps_[t], tensor.keepable ? tensor.bytes * us_per_byte : MaxFlow::kUnlimited);
    }
    if (std::isinf(flow_.Run(kSource, kSink))) return std::nullopt;
    return Needed();
  }

 private:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  static int OpNode(size_t op) { return 2 + static_cast<int>(op); }
  int TensorNode(size_t tensor) const { return 2 + static_cast<int>(problem_.ops.size() + tensor); }

  // What is on the sink's side and of use to anything that is wanted.
  KeepCut Needed() const {
    KeepCut cut;
    cut.kept.assign(problem_.tensors.size(), false);
    cut.recomputed.assign(problem_.ops.size(), false);
    std::vector<bool> seen(problem_.tensors.size(), false);
    std::vector<int> pending = problem_.wanted;
    while (!pending.empty()) {
      const int t = pending.back();
      pending.pop_back();
      if (seen[t]) continue;
      seen[t] = true;
      const int producer = problem_.tensors[t].producer;
      if (producer < 0 || flow_.OnSourceSide(OpNode(producer))) {
        cut.kept[t] = true;
        cut.bytes += problem_.tensors[t].bytes;
        continue;
      }
      if (!cut.recomputed[producer]) cut.cost_us += problem_.ops[producer].cost_us;
      cut.recomputed[producer] = true;
      pending.insert(pending.end(), problem_.ops[producer].inputs.begin(), problem_.ops[producer].inputs.end());
    }
    return cut;
  }

  const KeepProblem& problem_;
  MaxFlow flow_;
  std::vector<int> keeps_;  // per tensor: the edge that is cut where it is kept
};

}  // namespace

std::vector<KeepCut> KeepCuts(const KeepProblem& problem, int most) {
  double bytes = 0;
  double cost_us = 0;
  for (const KeepProblem::Tensor& tensor : problem.tensors) bytes += tensor.keepable ? tensor.bytes : 0;
  for (const KeepProblem::Op& op : problem.ops) cost_us += op.recomputable ? op.cost_us : 0;
  if (bytes <= 0) return {};
  const double even = std::max(cost_us, 1.0) / bytes;
  Cutter cutter(problem);
  const std::optional<KeepCut> fastest = cutter.Cut(even * kLittle);
  const std::optional<KeepCut> smallest = cutter.Cut(even / kLittle);
  if (!fastest || !smallest) return {};
  std::vector<KeepCut> cuts{*fastest};
  if (smallest->bytes < fastest->bytes) cuts.push_back(*smallest);
  // Between two corners, where a byte costs what it does on the line from one to the other, a cut below the line is a
  // corner, too.
  for (size_t i = 0; i + 1 < cuts.size() && static_cast<int>(cuts.size()) < most;) {
    const KeepCut& left = cuts[i];
    const KeepCut& right = cuts[i + 1];
    const double us_per_byte = (right.cost_us - left.cost_us) / (left.bytes - right.bytes);
    std::optional<KeepCut> between = us_per_byte > 0 ? cutter.Cut(us_per_byte) : std::nullopt;
    const auto price = [us_per_byte](const KeepCut& cut) { return cut.cost_us + us_per_byte * cut.bytes; };
    const bool below = between && price(*between) < price(left) * (1 - kLittle) && between->bytes < left.bytes &&
                       between->bytes > right.bytes;
    if (below) {
      cuts.insert(cuts.begin() + static_cast<std::ptrdiff_t>(i) + 1, *std::move(between));
    } else {
      ++i;
    }
  }
  return cuts;
}

}  // namespace lms
