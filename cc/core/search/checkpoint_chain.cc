#include "cc/core/search/checkpoint_chain.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lms {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();
constexpr int64_t kNoBytes = std::numeric_limits<int64_t>::max();
constexpr int kInnerStages = 8;      // that are merged into one
constexpr int64_t kSumsOfStep = 16;  // of work
constexpr int16_t kNoChoice = 0;
constexpr int16_t kSave = 1;
constexpr int16_t kInner = 2;
constexpr int16_t kPass = 3;  // and more: pass on up to the stage before choice - kPass

}  // namespace

Reversal::Reversal(const MemGraph& graph, const ChainStages& stages, int first, int count, Inner chains)
    : graph_(graph), stages_(stages), first_(first), count_(count), inner_(std::move(chains)) {
  stored_.resize(Pair(count, count));
  // What the frontier behind stage k holds beyond that before stage i has been computed in one of the stages i..k.
  for (int k = 0; k < count; ++k) {
    for (const BufferId b : stages.frontiers[first + k]) {
      const int made = stages.StageOf(graph.buffers[b].producer) - first;
      if (made >= 0) stored_[Pair(made, k)] += graph.buffers[b].bytes;
    }
    for (int i = k - 1; i >= 0; --i) stored_[Pair(i, k)] += stored_[Pair(i + 1, k)];
  }
  least_.assign(Pair(count, count), kNoBytes);
  for (int j = 0; j < count; ++j) {
    for (int i = j; i >= 0; --i) {
      int64_t& least = least_[Pair(i, j)];
      if (i == j) {
        least = inner(i) == nullptr ? OwnBytes(i) : std::min(OwnBytes(i), inner(i)->LeastBytes());
        continue;
      }
      ForEachWay(i, j, [&](const Way& way) {
        int64_t bytes = std::max(way.least, way.stored + least_[Pair(way.later, j)]);
        if (way.earlier != kNone) bytes = std::max(bytes, least_[Pair(i, way.earlier)]);
        least = std::min(least, bytes);
      });
    }
  }
}

// Of reversing one stage by saving everything.
int64_t Reversal::OwnBytes(int i) const {
  return std::max(stage(i).window_peak, stage(i).own_peak_first + stage(i).gradients);
}

template <typename Visit>
void Reversal::ForEachWay(int i, int j, const Visit& visit) const {
  const int64_t gradients = stage(j).gradients;
  visit(Way{kSave, stage(i).save_us, std::max(stage(i).window_peak, stage(i).save_peak_first + gradients),
            stage(i).save_bytes, i + 1, kNone});
  int64_t peak = stage(i).pass_peak_first;
  double passed_us = 0;
  for (int k = i + 1; k <= j; ++k) {
    // Stages i..k-1 pass on.
    if (k - 1 > i) peak = std::max(peak, stage(k - 1).pass_peak);
    passed_us += stage(k - 1).pass_us;
    visit(Way{static_cast<int16_t>(kPass + k), passed_us, peak + gradients, stored_[Pair(i, k - 1)], k, k - 1});
  }
}

int Reversal::Units(int64_t bytes) const {
  const int64_t units = (bytes + unit_bytes_ / 2) / unit_bytes_;
  return static_cast<int>(std::min<int64_t>(units, units_ + 1));
}

int64_t Reversal::Solve(int64_t unit_bytes, int units) {
  unit_bytes_ = unit_bytes;
  units_ = units;
  cost_.assign(Cell(count_, count_), kNever);
  choice_.assign(cost_.size(), kNoChoice);
  int64_t sums = 0;
  for (int j = 0; j < count_; ++j) {
    for (int i = j; i >= 0; --i) sums += i == j ? SolveAlone(i) : SolvePair(i, j);
  }
  return sums;
}

int64_t Reversal::SolveAlone(int i) {
  float* cost = &cost_[Cell(i, i)];
  int16_t* choice = &choice_[Cell(i, i)];
  for (int m = Units(OwnBytes(i)); m <= units_; ++m) {
    cost[m] = static_cast<float>(stage(i).own_us);
    choice[m] = kSave;
  }
  Reversal* chain = inner(i);
  if (chain == nullptr) return 0;
  const int64_t sums = chain->Solve(unit_bytes_, units_);
  for (int m = 0; m <= units_; ++m) {
    if (chain->Cost(m) >= cost[m]) continue;
    cost[m] = chain->Cost(m);
    choice[m] = kInner;
  }
  return sums;
}

int64_t Reversal::SolvePair(int i, int j) {
  float* cost = &cost_[Cell(i, j)];
  int16_t* choice = &choice_[Cell(i, j)];
  int64_t sums = 0;
  ForEachWay(i, j, [&](const Way& way) {
    const auto cost_us = static_cast<float>(way.cost_us);
    const int stored = Units(way.stored);
    const int begin = std::max(Units(way.least), stored);
    const float* later = &cost_[Cell(way.later, j)];
    const float* earlier = way.earlier == kNone ? nullptr : &cost_[Cell(i, way.earlier)];
    sums += std::max(0, units_ + 1 - begin);
    for (int m = begin; m <= units_; ++m) {
      const float c = cost_us + later[m - stored] + (earlier == nullptr ? 0 : earlier[m]);
      if (c < cost[m]) {
        cost[m] = c;
        choice[m] = way.choice;
      }
    }
  });
  return sums;
}

void Reversal::Run(const std::vector<BufferId>& buffers, OpId before, PlanState* state) const {
  for (const BufferId b : buffers) {
    if (graph_.InputsLast(graph_.buffers[b].producer, before)) state->Recompute(b, before);
  }
}

void Reversal::Apply(int units, bool forward, PlanState* state) const {
  struct Part {
    int i, j, m;
    bool forward;
  };
  std::vector<Part> parts{{0, count_ - 1, units, forward}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    const OpId before = stage(part.j).window;
    const int choice = choice_[Cell(part.i, part.j) + part.m];
    if (choice == kNoChoice) continue;
    if (choice == kInner) {
      inner(part.i)->Apply(part.m, part.forward, state);
      continue;
    }
    if (part.i == part.j) {
      if (!part.forward) Run(stage(part.i).own, before, state);
      continue;
    }
    if (choice == kSave) {
      if (!part.forward) Run(stage(part.i).saved, before, state);
      parts.push_back({part.i + 1, part.j, part.m - Units(stage(part.i).save_bytes), part.forward});
      continue;
    }
    const int k = choice - kPass;
    for (int s = part.i; s < k && !part.forward; ++s) Run(stage(s).passed, before, state);
    // The later part is reversed first; only it belongs to the same sweep.
    parts.push_back({part.i, k - 1, part.m, false});
    parts.push_back({k, part.j, part.m - Units(stored_[Pair(part.i, k - 1)]), part.forward});
  }
}

CheckpointChain::CheckpointChain(const MemGraph& graph, int most_stages) {
  if (graph.ops.empty()) return;
  const StageFinder finder(graph);
  work_ = finder.work();
  std::vector<OpId> cuts = finder.Cuts();
  if (cuts.size() < 2) return;
  Reversal::Inner inner;
  if (static_cast<int>(cuts.size()) <= most_stages) {
    merged_ = finder.Measured(cuts);
  } else {
    cuts = finder.Fewer(cuts, kInnerStages * most_stages);
    const std::vector<OpId> fewer = finder.Fewer(cuts, most_stages);
    fine_ = finder.Measured(cuts);
    merged_ = finder.Measured(fewer);
    int first = 0;
    for (const OpId cut : fewer) {
      int last = first;
      while (cuts[last] != cut) ++last;
      const int count = last - first + 1;
      inner.push_back(count == 1 ? nullptr : std::make_unique<Reversal>(graph, fine_, first, count, Reversal::Inner()));
      first = last + 1;
    }
  }
  whole_.emplace(graph, merged_, 0, stages(), std::move(inner));
}

void CheckpointChain::Solve(int64_t most_bytes, int most_units) {
  most_bytes_ = most_bytes;
  int64_t divisor = 0;
  for (const ChainStages* list : {&merged_, &fine_}) {
    for (const ChainStage& stage : list->stages) {
      for (const int64_t bytes : {stage.save_bytes, stage.pass_peak, stage.pass_peak_first, stage.window_peak}) {
        divisor = std::gcd(divisor, bytes);
      }
    }
  }
  const int64_t unit_bytes = std::max({int64_t{1}, divisor, (most_bytes + most_units - 1) / most_units});
  units_ = static_cast<int>((most_bytes + unit_bytes - 1) / unit_bytes);
  work_ += whole_->Solve(unit_bytes, units_) / kSumsOfStep;
}

int64_t CheckpointChain::MostWork(int stages, int units) {
  // Of n stages: a sixth of their cube of pairs, and of places between these.
  const auto triples = [](int64_t n) { return n * (n + 1) * (n + 2) / 6; };
  return (triples(stages) + stages * triples(kInnerStages)) * (units + 1) / kSumsOfStep;
}

int CheckpointChain::LeastLevel() const {
  int level = 0;
  while (level < levels() && whole_->Cost(level) == kNever) ++level;
  return level;
}

void CheckpointChain::Apply(int level, PlanState* state) const {
  state->Begin();
  whole_->Apply(level, true, state);
  state->Commit();
}

}  // namespace lms
