#include "cc/core/search/chain_stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cc/core/base/sort_unique.h"
#include "cc/core/graph/turn.h"

namespace lms {
namespace {

constexpr int64_t kCuttingWork = 20;  // for each op and buffer

bool Contains(const std::vector<BufferId>& sorted, BufferId b) {
  return std::binary_search(sorted.begin(), sorted.end(), b);
}

}  // namespace

int ChainStages::StageOf(OpId op) const {
  const auto behind = std::upper_bound(stages.begin(), stages.end(), op,
                                       [](OpId wanted, const ChainStage& stage) { return wanted < stage.first; });
  return static_cast<int>(behind - stages.begin()) - 1;
}

StageFinder::StageFinder(const MemGraph& graph)
    : graph_(graph),
      keep_everything_(graph),
      turn_(TurnOf(graph)),
      last_forward_read_(graph.buffers.size(), kNone),
      first_backward_read_(graph.buffers.size(), kNone),
      last_backward_read_(graph.buffers.size(), kNone),
      crossing_(turn_ + 2, 0),
      saved_(turn_ + 2, 0) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  for (OpId op = 0; op < n; ++op) {
    for (const BufferId b : graph.ops[op].inputs) {
      if (op <= turn_) {
        last_forward_read_[b] = op;
      } else {
        if (first_backward_read_[b] == kNone) first_backward_read_[b] = op;
        last_backward_read_[b] = op;
      }
    }
  }
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const MemBuffer& buffer = graph.buffers[b];
    if (buffer.resident || buffer.producer > turn_ || buffer.producer == kNone) continue;
    if (buffer.evictable && last_forward_read_[b] != kNone) {
      crossing_[buffer.producer] += buffer.bytes;
      crossing_[last_forward_read_[b]] -= buffer.bytes;
    }
    if (first_backward_read_[b] != kNone) saved_[buffer.producer] += buffer.bytes;
  }
  for (OpId p = 1; p <= turn_; ++p) {
    crossing_[p] += crossing_[p - 1];
    saved_[p] += saved_[p - 1];
  }
}

int64_t StageFinder::work() const {
  return kCuttingWork * static_cast<int64_t>(graph_.ops.size() + graph_.buffers.size());
}

// The local minima of what crosses: the first op of each plateau at which something new is saved.
std::vector<OpId> StageFinder::Cuts() const {
  std::vector<OpId> cuts;
  if (turn_ <= 0 || saved_[turn_] == 0) return cuts;
  int64_t saved_at_last_cut = 0;
  for (OpId p = 0; p < turn_; ++p) {
    const bool falls = p == 0 || crossing_[p - 1] >= crossing_[p];
    OpId next = p + 1;
    while (next < turn_ && crossing_[next] == crossing_[p]) ++next;
    const bool rises = next >= turn_ || crossing_[next] > crossing_[p];
    if (falls && rises && crossing_[p] > 0 && saved_[p] > saved_at_last_cut && !graph_.ops[p].outputs.empty()) {
      cuts.push_back(p);
      saved_at_last_cut = saved_[p];
    }
  }
  cuts.push_back(turn_);
  return cuts;
}

std::vector<OpId> StageFinder::Fewer(const std::vector<OpId>& cuts, int most) const {
  std::vector<OpId> chosen;
  size_t next = 0;
  for (int part = 0; part < most - 1; ++part) {
    const double until = static_cast<double>(saved_[turn_]) * (part + 1) / (most - 1);
    OpId thinnest = kNone;
    for (; next + 1 < cuts.size() && static_cast<double>(saved_[cuts[next]]) <= until; ++next) {
      if (thinnest == kNone || crossing_[cuts[next]] <= crossing_[thinnest]) thinnest = cuts[next];
    }
    if (thinnest != kNone) chosen.push_back(thinnest);
  }
  chosen.push_back(turn_);
  return chosen;
}

// What has to be computed within the stage for the wanted buffers, given the frontier before it. Sorted by producer.
std::vector<BufferId> StageFinder::Needed(const ChainStage& stage, const std::vector<BufferId>& wanted) const {
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

double StageFinder::Cost(const std::vector<BufferId>& buffers) const {
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
int64_t StageFinder::Peak(const ChainStage& stage, const std::vector<BufferId>& buffers,
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

ChainStages StageFinder::Measured(const std::vector<OpId>& cuts) const {
  ChainStages result;
  OpId first = 0;
  for (const OpId cut : cuts) {
    ChainStage stage;
    stage.first = first;
    stage.last = cut;
    result.stages.push_back(std::move(stage));
    first = cut + 1;
  }
  const int count = static_cast<int>(result.stages.size());
  // Frontiers: what crosses each cut for the forward part.
  result.frontiers.resize(count);
  std::vector<std::vector<BufferId>> saved(count);
  for (size_t b = 0; b < graph_.buffers.size(); ++b) {
    const MemBuffer& buffer = graph_.buffers[b];
    if (buffer.resident || buffer.producer == kNone || buffer.producer > turn_ || !buffer.evictable) continue;
    const int made = result.StageOf(buffer.producer);
    if (last_forward_read_[b] != kNone) {
      const int read = result.StageOf(last_forward_read_[b]);
      for (int s = made; s < read; ++s) result.frontiers[s].push_back(static_cast<BufferId>(b));
    }
    if (first_backward_read_[b] != kNone) saved[made].push_back(static_cast<BufferId>(b));
  }
  FindWindows(saved, &result);
  FindSizes(saved, &result);
  return result;
}

// In reverse order of the stages, each window begins with the first read of what its stage has saved for itself.
void StageFinder::FindWindows(const std::vector<std::vector<BufferId>>& saved, ChainStages* found) const {
  OpId earliest = turn_ + 1;
  for (int s = static_cast<int>(saved.size()) - 1; s >= 0; --s) {
    ChainStage& stage = found->stages[s];
    OpId begins = kNone;
    for (const BufferId b : saved[s]) {
      if (Contains(found->frontiers[s], b)) continue;
      if (begins == kNone || first_backward_read_[b] < begins) begins = first_backward_read_[b];
    }
    // A stage that saves only its frontier: the first read of what is before it once the next stage's window has begun.
    if (begins == kNone && s > 0) {
      for (const BufferId b : found->frontiers[s - 1]) {
        for (const PlanState::Access& access : keep_everything_.life(b).accesses) {
          const OpId op = OpOfSlot(access.slot);
          if (op <= earliest || op >= static_cast<OpId>(graph_.ops.size())) continue;
          if (begins == kNone || op < begins) begins = op;
          break;
        }
      }
    }
    stage.window = earliest = std::max(earliest, begins == kNone ? earliest : begins);
  }
}

void StageFinder::FindSizes(const std::vector<std::vector<BufferId>>& saved, ChainStages* found) const {
  const std::vector<int64_t> bytes = keep_everything_.bytes().Values();
  int64_t saved_before = 0;
  for (size_t s = 0; s < saved.size(); ++s) {
    ChainStage& stage = found->stages[s];
    std::vector<BufferId> own;  // of what it saves: for its own window
    std::vector<BufferId> both = saved[s];
    for (const BufferId b : saved[s]) {
      if (last_backward_read_[b] >= stage.window) own.push_back(b);
    }
    both.insert(both.end(), found->frontiers[s].begin(), found->frontiers[s].end());
    SortUnique(&both);
    stage.passed = Needed(stage, found->frontiers[s]);
    stage.saved = Needed(stage, both);
    stage.own = Needed(stage, own);
    stage.pass_us = Cost(stage.passed);
    stage.save_us = Cost(stage.saved);
    stage.own_us = Cost(stage.own);
    for (const BufferId b : both) {
      if (s == 0 || !Contains(found->frontiers[s - 1], b)) stage.save_bytes += graph_.buffers[b].bytes;
    }
    stage.pass_peak = Peak(stage, stage.passed, found->frontiers[s], true);
    stage.pass_peak_first = Peak(stage, stage.passed, found->frontiers[s], false);
    stage.save_peak_first = Peak(stage, stage.saved, both, false);
    stage.own_peak_first = Peak(stage, stage.own, own, false);
    const OpId until = s == 0 ? static_cast<OpId>(graph_.ops.size()) : found->stages[s - 1].window;
    for (OpId op = stage.window; op < until; ++op) {
      stage.window_peak = std::max(stage.window_peak, bytes[OpSlot(op)] - saved_before);
    }
    for (const BufferId b : saved[s]) saved_before += graph_.buffers[b].bytes;
    stage.gradients = std::max<int64_t>(0, bytes[ClosureSlot(stage.window)] - saved_before);
  }
}

}  // namespace lms
