#include "cc/core/search/checkpoint_chain.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "cc/core/base/sort_unique.h"
#include "cc/core/graph/turn.h"

namespace lms {
namespace {

constexpr int kMostUnits = 256;
constexpr float kNever = std::numeric_limits<float>::infinity();
constexpr int64_t kCellsOfStep = 16;  // of work
constexpr int64_t kStagesWork = 20;   // of cutting into stages, for each op and buffer
constexpr int16_t kNoChoice = 0;
constexpr int16_t kSave = 1;
constexpr int16_t kPass = 2;  // and more: pass on up to the stage before choice - kPass

bool Contains(const std::vector<BufferId>& sorted, BufferId b) {
  return std::binary_search(sorted.begin(), sorted.end(), b);
}

}  // namespace

CheckpointChain::CheckpointChain(const MemGraph& graph, int most_stages)
    : graph_(graph),
      last_forward_read_(graph.buffers.size(), kNone),
      first_backward_read_(graph.buffers.size(), kNone),
      last_backward_read_(graph.buffers.size(), kNone) {
  if (graph.ops.empty()) return;
  work_ = kStagesWork * static_cast<int64_t>(graph.ops.size() + graph.buffers.size());
  const PlanState keep_everything(graph);
  FindTurn();
  FindStages(most_stages);
  if (usable()) MeasureStages(keep_everything);
}

void CheckpointChain::FindTurn() {
  const OpId n = static_cast<OpId>(graph_.ops.size());
  turn_ = TurnOf(graph_);
  for (OpId op = 0; op < n; ++op) {
    for (const BufferId b : graph_.ops[op].inputs) {
      if (op <= turn_) {
        last_forward_read_[b] = op;
      } else {
        if (first_backward_read_[b] == kNone) first_backward_read_[b] = op;
        last_backward_read_[b] = op;
      }
    }
  }
}

void CheckpointChain::FindStages(int most_stages) {
  if (turn_ <= 0) return;
  // Bytes that cross from op p to p + 1 for the sake of the forward part alone, and bytes saved up to p.
  std::vector<int64_t> crossing(turn_ + 2, 0);
  std::vector<int64_t> saved(turn_ + 2, 0);
  for (size_t b = 0; b < graph_.buffers.size(); ++b) {
    const MemBuffer& buffer = graph_.buffers[b];
    if (buffer.resident || buffer.producer > turn_ || buffer.producer == kNone) continue;
    if (buffer.evictable && last_forward_read_[b] != kNone) {
      crossing[buffer.producer] += buffer.bytes;
      crossing[last_forward_read_[b]] -= buffer.bytes;
    }
    if (first_backward_read_[b] != kNone) saved[buffer.producer] += buffer.bytes;
  }
  for (OpId p = 1; p <= turn_; ++p) {
    crossing[p] += crossing[p - 1];
    saved[p] += saved[p - 1];
  }
  if (saved[turn_] == 0) return;
  // Candidates: the local minima, the first op of each plateau at which something new is saved.
  std::vector<OpId> cuts;
  int64_t saved_at_last_cut = 0;
  for (OpId p = 0; p < turn_; ++p) {
    const bool falls = p == 0 || crossing[p - 1] >= crossing[p];
    OpId next = p + 1;
    while (next < turn_ && crossing[next] == crossing[p]) ++next;
    const bool rises = next >= turn_ || crossing[next] > crossing[p];
    if (falls && rises && crossing[p] > 0 && saved[p] > saved_at_last_cut && !graph_.ops[p].outputs.empty()) {
      cuts.push_back(p);
      saved_at_last_cut = saved[p];
    }
  }
  if (static_cast<int>(cuts.size()) > most_stages - 1) {
    // The thinnest cut of each of so many equal parts of what is saved.
    std::vector<OpId> chosen;
    size_t next = 0;
    for (int part = 0; part < most_stages - 1; ++part) {
      const double until = static_cast<double>(saved[turn_]) * (part + 1) / (most_stages - 1);
      OpId thinnest = kNone;
      for (; next < cuts.size() && static_cast<double>(saved[cuts[next]]) <= until; ++next) {
        if (thinnest == kNone || crossing[cuts[next]] <= crossing[thinnest]) thinnest = cuts[next];
      }
      if (thinnest != kNone) chosen.push_back(thinnest);
    }
    cuts = std::move(chosen);
  }
  cuts.push_back(turn_);
  OpId first = 0;
  for (const OpId cut : cuts) {
    Stage stage;
    stage.first = first;
    stage.last = cut;
    stages_.push_back(std::move(stage));
    first = cut + 1;
  }
}

// What has to be computed within the stage for the wanted buffers, given the frontier before it. Sorted by producer.
std::vector<BufferId> CheckpointChain::Needed(const Stage& stage, const std::vector<BufferId>& wanted) const {
  std::vector<BufferId> needed;
  const auto add = [&](BufferId b) {
    const MemBuffer& buffer = graph_.buffers[b];
    if (buffer.resident || buffer.producer < stage.first || buffer.producer > stage.last || !buffer.evictable) return;
    if (!graph_.ops[buffer.producer].recomputable) return;
    if (std::find(needed.begin(), needed.end(), b) == needed.end()) needed.push_back(b);
  };
  for (const BufferId b : wanted) add(b);
  for (size_t i = 0; i < needed.size(); ++i) {
    for (const BufferId input : graph_.ops[graph_.buffers[needed[i]].producer].inputs) add(input);
  }
  std::sort(needed.begin(), needed.end(), [this](BufferId a, BufferId b) {
    return std::make_pair(graph_.buffers[a].producer, a) < std::make_pair(graph_.buffers[b].producer, b);
  });
  return needed;
}

double CheckpointChain::Cost(const std::vector<BufferId>& buffers) const {
  double cost_us = 0;
  OpId last = kNone;
  for (const BufferId b : buffers) {
    const OpId producer = graph_.buffers[b].producer;
    if (producer != last) cost_us += graph_.ops[producer].cost_us;
    last = producer;
  }
  return cost_us;
}

// The most that is held while `buffers` are computed in order and those of `held` are kept to the end.
int64_t CheckpointChain::Peak(const Stage& stage, const std::vector<BufferId>& buffers,
                              const std::vector<BufferId>& held, bool with_frontier) const {
  std::vector<std::pair<BufferId, OpId>> last_read;
  OpId previous = kNone;
  std::vector<OpId> ops;
  for (const BufferId b : buffers) {
    const OpId op = graph_.buffers[b].producer;
    if (op == previous) continue;
    previous = op;
    ops.push_back(op);
  }
  for (const OpId op : ops) {
    for (const BufferId input : graph_.ops[op].inputs) last_read.emplace_back(input, op);
  }
  std::sort(last_read.begin(), last_read.end());
  const auto dies_at = [&](BufferId b, OpId op) {
    const auto after =
        std::upper_bound(last_read.begin(), last_read.end(), std::make_pair(b, std::numeric_limits<OpId>::max()));
    return (after - 1)->second == op;
  };
  int64_t live = 0;
  if (with_frontier && stage.first > 0) {
    BufferId last = kNone;
    for (const auto& [b, op] : last_read) {
      const MemBuffer& buffer = graph_.buffers[b];
      if (b != last && !buffer.resident && buffer.producer < stage.first && buffer.evictable) live += buffer.bytes;
      last = b;
    }
  }
  int64_t peak = live;
  for (const OpId op : ops) {
    const MemOp& o = graph_.ops[op];
    int64_t made = 0;
    int64_t kept = 0;
    for (const BufferId b : o.outputs) {
      if (graph_.buffers[b].resident) continue;
      made += graph_.buffers[b].bytes;
      if (std::find(buffers.begin(), buffers.end(), b) != buffers.end()) kept += graph_.buffers[b].bytes;
    }
    int64_t freed = 0;
    int64_t forwarded = 0;
    for (const BufferId b : o.inputs) {
      const MemBuffer& buffer = graph_.buffers[b];
      if (buffer.resident || !buffer.evictable || Contains(held, b) || !dies_at(b, op)) continue;
      if (buffer.producer < stage.first && !with_frontier) continue;
      freed += buffer.bytes;
      if (std::find(o.forwardable.begin(), o.forwardable.end(), b) != o.forwardable.end()) {
        forwarded = std::max(forwarded, std::min(made, buffer.bytes));
      }
    }
    peak = std::max(peak, live + made + o.workspace_bytes - forwarded);
    live += kept - freed;
  }
  return peak;
}

void CheckpointChain::MeasureStages(const PlanState& keep_everything) {
  const int count = stages();
  // Frontiers: what crosses each cut for the forward part.
  frontier_.resize(count);
  std::vector<std::vector<BufferId>> saved(count);
  std::vector<int> stage_of(turn_ + 1, 0);
  for (int s = 0; s < count; ++s) {
    for (OpId op = stages_[s].first; op <= stages_[s].last; ++op) stage_of[op] = s;
  }
  for (size_t b = 0; b < graph_.buffers.size(); ++b) {
    const MemBuffer& buffer = graph_.buffers[b];
    if (buffer.resident || buffer.producer == kNone || buffer.producer > turn_ || !buffer.evictable) continue;
    const int made = stage_of[buffer.producer];
    if (last_forward_read_[b] != kNone) {
      for (int s = made; s < stage_of[last_forward_read_[b]]; ++s) frontier_[s].push_back(static_cast<BufferId>(b));
    }
    if (first_backward_read_[b] != kNone) saved[made].push_back(static_cast<BufferId>(b));
  }
  // Windows: in reverse order of the stages, each begins with the first read of what its stage has saved for itself.
  OpId earliest = turn_ + 1;
  for (int s = count - 1; s >= 0; --s) {
    Stage& stage = stages_[s];
    OpId begins = kNone;
    for (const BufferId b : saved[s]) {
      if (Contains(frontier_[s], b)) continue;
      if (begins == kNone || first_backward_read_[b] < begins) begins = first_backward_read_[b];
    }
    // A stage that saves only its frontier: the first read of what is before it once the next stage's window has begun.
    if (begins == kNone && s > 0) {
      for (const BufferId b : frontier_[s - 1]) {
        for (const PlanState::Access& access : keep_everything.life(b).accesses) {
          const OpId op = OpOfSlot(access.slot);
          if (op <= earliest || op >= static_cast<OpId>(graph_.ops.size())) continue;
          if (begins == kNone || op < begins) begins = op;
          break;
        }
      }
    }
    stage.window = earliest = std::max(earliest, begins == kNone ? earliest : begins);
  }
  const std::vector<int64_t> bytes = keep_everything.bytes().Values();
  int64_t saved_before = 0;
  for (int s = 0; s < count; ++s) {
    Stage& stage = stages_[s];
    std::vector<BufferId> own;  // of what it saves: for its own window
    std::vector<BufferId> both = saved[s];
    for (const BufferId b : saved[s]) {
      if (last_backward_read_[b] >= stage.window) own.push_back(b);
    }
    both.insert(both.end(), frontier_[s].begin(), frontier_[s].end());
    SortUnique(&both);
    stage.passed = Needed(stage, frontier_[s]);
    stage.saved = Needed(stage, both);
    stage.own = Needed(stage, own);
    stage.pass_us = Cost(stage.passed);
    stage.save_us = Cost(stage.saved);
    stage.own_us = Cost(stage.own);
    for (const BufferId b : both) {
      if (s == 0 || !Contains(frontier_[s - 1], b)) stage.save_bytes += graph_.buffers[b].bytes;
    }
    stage.pass_peak = Peak(stage, stage.passed, frontier_[s], true);
    stage.pass_peak_first = Peak(stage, stage.passed, frontier_[s], false);
    stage.save_peak_first = Peak(stage, stage.saved, both, false);
    stage.own_peak_first = Peak(stage, stage.own, own, false);
    const OpId until = s == 0 ? static_cast<OpId>(graph_.ops.size()) : stages_[s - 1].window;
    for (OpId op = stage.window; op < until; ++op) {
      stage.window_peak = std::max(stage.window_peak, bytes[OpSlot(op)] - saved_before);
    }
    for (const BufferId b : saved[s]) saved_before += graph_.buffers[b].bytes;
    stage.gradients = std::max<int64_t>(0, bytes[ClosureSlot(stage.window)] - saved_before);
  }
}

size_t CheckpointChain::Cell(int i, int j) const {
  const size_t pair = static_cast<size_t>(j) * (j + 1) / 2 + i;
  return pair * (units_ + 1);
}

int CheckpointChain::Units(int64_t bytes) const {
  const int64_t units = (bytes + unit_bytes_ / 2) / unit_bytes_;
  return static_cast<int>(std::min<int64_t>(units, units_ + 1));
}

void CheckpointChain::Solve(int64_t most_bytes) {
  const int count = stages();
  int64_t divisor = most_bytes;
  for (const Stage& stage : stages_) {
    for (const int64_t bytes : {stage.save_bytes, stage.pass_peak, stage.pass_peak_first, stage.window_peak}) {
      divisor = std::gcd(divisor, bytes);
    }
  }
  unit_bytes_ = std::max<int64_t>(std::max<int64_t>(divisor, 1), (most_bytes + kMostUnits - 1) / kMostUnits);
  units_ = static_cast<int>(most_bytes / unit_bytes_);
  const int levels = units_ + 1;
  cost_.assign(Cell(count, count) + levels, kNever);
  choice_.assign(cost_.size(), kNoChoice);
  // Bytes of each frontier beyond another one.
  std::vector<std::vector<int>> beyond(count, std::vector<int>(count, 0));  // [k][i]: frontier k without frontier i - 1
  for (int k = 0; k < count; ++k) {
    for (int i = 0; i <= k; ++i) {
      int64_t bytes = 0;
      for (const BufferId b : frontier_[k]) {
        if (i == 0 || !Contains(frontier_[i - 1], b)) bytes += graph_.buffers[b].bytes;
      }
      beyond[k][i] = Units(bytes);
    }
  }
  int64_t cells = 0;
  for (int j = 0; j < count; ++j) {
    for (int i = j; i >= 0; --i) {
      float* cost = &cost_[Cell(i, j)];
      int16_t* choice = &choice_[Cell(i, j)];
      const Stage& stage = stages_[i];
      const int window = Units(stage.window_peak);
      if (i == j) {
        const int least = std::max(window, Units(stage.own_peak_first + stage.gradients));
        for (int m = least; m < levels; ++m) {
          cost[m] = static_cast<float>(stage.own_us);
          choice[m] = kSave;
        }
        continue;
      }
      {
        const int least = std::max(window, Units(stage.save_peak_first + stages_[j].gradients));
        const int saved = Units(stage.save_bytes);
        const float* rest = &cost_[Cell(i + 1, j)];
        for (int m = std::max(least, saved); m < levels; ++m) {
          const float c = static_cast<float>(stage.save_us) + rest[m - saved];
          if (c < cost[m]) {
            cost[m] = c;
            choice[m] = kSave;
          }
        }
      }
      int64_t peak = stage.pass_peak_first;
      float passed_us = 0;
      for (int k = i + 1; k <= j; ++k) {
        // Stages i..k-1 pass on.
        if (k - 1 > i) peak = std::max(peak, stages_[k - 1].pass_peak);
        passed_us += static_cast<float>(stages_[k - 1].pass_us);
        const int least = Units(peak + stages_[j].gradients);
        const int stored = beyond[k - 1][i];
        const float* later = &cost_[Cell(k, j)];
        const float* earlier = &cost_[Cell(i, k - 1)];
        const int16_t code = static_cast<int16_t>(kPass + k);
        cells += levels - std::min(levels, std::max(least, stored));
        for (int m = std::max(least, stored); m < levels; ++m) {
          const float c = passed_us + later[m - stored] + earlier[m];
          if (c < cost[m]) {
            cost[m] = c;
            choice[m] = code;
          }
        }
      }
    }
  }
  work_ += cells / kCellsOfStep;
}

int CheckpointChain::LeastLevel() const {
  const float* cost = &cost_[Cell(0, stages() - 1)];
  int level = 0;
  while (level < levels() && cost[level] == kNever) ++level;
  return level;
}

void CheckpointChain::Apply(int level, PlanState* state) const {
  struct Part {
    int i, j, m;
    bool first_sweep;  // the step's own forward part: everything runs in any case
  };
  state->Begin();
  const auto run = [&](const std::vector<BufferId>& buffers, OpId before, bool first_sweep) {
    if (first_sweep) return;
    for (const BufferId b : buffers) {
      if (graph_.InputsLast(graph_.buffers[b].producer, before)) state->Recompute(b, before);
    }
  };
  std::vector<Part> parts{{0, stages() - 1, level, true}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    const OpId before = stages_[part.j].window;
    const Stage& stage = stages_[part.i];
    if (part.i == part.j) {
      run(stage.own, before, part.first_sweep);
      continue;
    }
    const int choice = choice_[Cell(part.i, part.j) + part.m];
    if (choice == kNoChoice) continue;
    if (choice == kSave) {
      run(stage.saved, before, part.first_sweep);
      parts.push_back({part.i + 1, part.j, part.m - Units(stage.save_bytes), part.first_sweep});
      continue;
    }
    const int k = choice - kPass;
    int64_t stored = 0;
    for (const BufferId b : frontier_[k - 1]) {
      if (part.i == 0 || !Contains(frontier_[part.i - 1], b)) stored += graph_.buffers[b].bytes;
    }
    for (int s = part.i; s < k; ++s) run(stages_[s].passed, before, part.first_sweep);
    // The later part is reversed first; only it belongs to the same sweep.
    parts.push_back({part.i, k - 1, part.m, false});
    parts.push_back({k, part.j, part.m - Units(stored), part.first_sweep});
  }
  state->Commit();
}

}  // namespace lms
