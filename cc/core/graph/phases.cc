#include "cc/core/graph/phases.h"

#include <algorithm>
#include <cstddef>

namespace lms {
namespace {

constexpr int kNoUpdate = -1;
constexpr int kSeveral = -2;

class Phases {
 public:
  explicit Phases(const MemGraph& graph) : graph_(graph), n_(graph.ops.size()), named_(n_), writes_(n_, kNoUpdate) {
    for (size_t i = 0; i < n_; ++i) named_[i] = IsGradientName(graph.ops[i].name);
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      if (!graph.buffers[b].resident) continue;
      for (const OpId op : graph.buffers[b].overwritten_by) writes_[op] = static_cast<int>(b);
    }
  }

  std::vector<Phase> Run() {
    std::vector<Phase> phases(n_, Phase::kForward);
    const std::vector<bool> backward = Any(named_) ? BackwardByName() : BackwardByDependency();
    if (!Any(backward)) return phases;
    std::vector<bool> below(n_, false);    // computed from what the backward pass has made
    std::vector<bool> waiting(n_, false);  // or waits for it
    std::vector<bool> update(n_, false);
    for (size_t i = 0; i < n_; ++i) {
      const auto op = static_cast<OpId>(i);
      ForEachSource(op, [&](OpId source) { below[i] = below[i] || backward[source] || below[source]; });
      for (const OpId dep : graph_.ops[i].deps) waiting[i] = waiting[i] || backward[dep] || waiting[dep];
      update[i] = !backward[i] && (below[i] || (writes_[i] != kNoUpdate && waiting[i]));
    }
    // What only the update reads; a view reads, too.
    std::vector<int> others(n_, 0);
    std::vector<bool> read_by_update(n_, false);
    for (size_t i = n_; i-- > 0;) {
      const auto op = static_cast<OpId>(i);
      const bool returned = std::any_of(graph_.ops[i].outputs.begin(), graph_.ops[i].outputs.end(),
                                        [this](BufferId b) { return graph_.buffers[b].escapes; });
      if (!backward[i] && read_by_update[i] && others[i] == 0 && !returned) update[i] = true;
      ForEachSource(op, [&](OpId source) {
        if (update[i]) {
          read_by_update[source] = true;
        } else {
          ++others[source];
        }
      });
    }
    for (size_t i = 0; i < n_; ++i) {
      if (update[i]) phases[i] = Phase::kUpdate;
      if (backward[i]) phases[i] = Phase::kBackward;
    }
    return phases;
  }

 private:
  static bool Any(const std::vector<bool>& list) { return std::find(list.begin(), list.end(), true) != list.end(); }

  // The ops that make what `op` reads; what is there all the time is made by nobody.
  template <typename Function>
  void ForEachSource(OpId op, const Function& source) const {
    for (const BufferId b : graph_.ops[op].inputs) {
      const MemBuffer& buffer = graph_.buffers[b];
      if (!buffer.resident && buffer.producer != kNone && buffer.producer < op) source(buffer.producer);
    }
  }

  std::vector<bool> BackwardByName() const {
    std::vector<bool> leads = named_;
    for (size_t i = n_; i-- > 0;) {
      if (!leads[i]) continue;
      ForEachSource(static_cast<OpId>(i), [&](OpId source) { leads[source] = true; });
    }
    std::vector<bool> backward = named_;
    std::vector<bool> below = named_;
    for (size_t i = 0; i < n_; ++i) {
      ForEachSource(static_cast<OpId>(i), [&](OpId source) { below[i] = below[i] || below[source]; });
      if (below[i] && leads[i]) backward[i] = true;
    }
    return backward;
  }

  std::vector<bool> BackwardByDependency() const {
    // Per op: the variable whose update it leads to.
    std::vector<int> leads = writes_;
    std::vector<bool> to_result(n_, false);
    for (size_t i = n_; i-- > 0;) {
      for (const BufferId b : graph_.ops[i].outputs) to_result[i] = to_result[i] || graph_.buffers[b].escapes;
      ForEachSource(static_cast<OpId>(i), [&](OpId source) {
        if (leads[i] != kNoUpdate) leads[source] = Join(leads[source], leads[i]);
        to_result[source] = to_result[source] || to_result[i];
      });
    }
    std::vector<bool> changes(graph_.buffers.size(), false);
    int variables = 0;
    for (const int variable : writes_) {
      if (variable == kNoUpdate || changes[variable]) continue;
      changes[variable] = true;
      ++variables;
    }
    // A variable that is read for its own update alone (a moving average, a counter) is not trained.
    std::vector<bool> read(graph_.buffers.size(), false);
    OpId waist = kNone;
    for (size_t i = 0; i < n_; ++i) {
      if (writes_[i] != kNoUpdate || (leads[i] != kSeveral && !(variables == 1 && leads[i] != kNoUpdate))) continue;
      for (const BufferId b : graph_.ops[i].inputs) {
        if (!changes[b] || read[b]) continue;
        read[b] = true;
        waist = static_cast<OpId>(i);
      }
    }
    std::vector<bool> backward(n_, false);
    if (waist == kNone) return backward;
    std::vector<bool> below(n_, false);
    below[waist] = true;
    for (size_t i = 0; i < n_; ++i) {
      ForEachSource(static_cast<OpId>(i), [&](OpId source) { below[i] = below[i] || below[source]; });
      backward[i] = below[i] && leads[i] != kNoUpdate && !to_result[i] && writes_[i] == kNoUpdate &&
                    static_cast<OpId>(i) != waist;
    }
    return backward;
  }

  static int Join(int a, int b) {
    if (a == kNoUpdate || a == b) return b;
    return kSeveral;
  }

  const MemGraph& graph_;
  const size_t n_;
  std::vector<bool> named_;
  std::vector<int> writes_;  // per op: a variable that it changes
};

}  // namespace

bool IsGradientName(std::string_view name) {
  constexpr std::string_view kTape = "gradient_tape";
  constexpr std::string_view kGradients = "gradients";
  size_t begin = 0;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    // The last part is the op's own name.
    if (end < name.size() && (part == kTape || part.substr(0, kTape.size() + 1) == "gradient_tape_" ||
                              part == kGradients || part.substr(0, kGradients.size() + 1) == "gradients_")) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

std::vector<Phase> PhasesOf(const MemGraph& graph) { return Phases(graph).Run(); }

}  // namespace lms
