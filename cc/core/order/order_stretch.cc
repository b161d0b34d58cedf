#include "cc/core/order/order_stretch.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "cc/core/base/random.h"

namespace lms {
namespace {

// Partial orders that are kept, times the length of the stretch.
constexpr int kBeam = 2048;
constexpr int kWidest = 96;
// Steps of work: for a partial order that is kept, and for a next op that is weighed and sorted among the others.
constexpr int64_t kStateWork = 60;
constexpr int64_t kEffectWork = 20;

class Beam {
 public:
  Beam(const OrderSpace& space, const std::vector<OpId>& order, const std::vector<int>& place, int first, int last)
      : space_(space), ops_(order.begin() + first, order.begin() + last + 1) {
    std::unordered_map<OpId, int> local;
    for (size_t i = 0; i < ops_.size(); ++i) local.emplace(ops_[i], static_cast<int>(i));
    after_.resize(ops_.size());
    inputs_.resize(ops_.size());
    outputs_.resize(ops_.size());
    root_.waits.assign(ops_.size(), 0);
    Random random(1);
    std::unordered_map<BufferId, int> buffers;
    const auto local_buffer = [&](BufferId b) {
      const auto [at, is_new] = buffers.emplace(b, static_cast<int>(bytes_.size()));
      if (!is_new) return at->second;
      bytes_.push_back(space.graph().buffers[b].bytes);
      int unread = space.graph().buffers[b].escapes ? 1 : 0;
      for (const OpId reader : space.readers()[b]) unread += place[reader] < first ? 0 : 1;
      root_.unread.push_back(static_cast<uint16_t>(std::min(unread, 60000)));
      return at->second;
    };
    for (size_t i = 0; i < ops_.size(); ++i) {
      hash_.push_back(random.Next());
      for (const OpId other : space.after()[ops_[i]]) {
        const auto at = local.find(other);
        if (at == local.end()) continue;
        after_[i].push_back(at->second);
        ++root_.waits[at->second];
      }
      for (const BufferId b : space.inputs()[ops_[i]]) {
        const std::vector<BufferId>& forwardable = space.graph().ops[ops_[i]].forwardable;
        inputs_[i].push_back(
            {local_buffer(b), std::find(forwardable.begin(), forwardable.end(), b) != forwardable.end()});
      }
      for (const BufferId b : space.outputs()[ops_[i]]) outputs_[i].push_back(local_buffer(b));
    }
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (root_.waits[i] == 0) root_.ready.push_back(static_cast<int>(i));
    }
  }

  std::vector<OpId> Run() {
    const int n = static_cast<int>(ops_.size());
    const size_t width = static_cast<size_t>(std::clamp(kBeam / std::max(1, n), 4, kWidest));
    std::vector<State> states{root_};
    struct Made {
      int from;
      int op;
    };
    std::vector<std::vector<Made>> history;
    struct Next {
      int64_t peak;
      int64_t live;
      int from;
      int op;
      uint64_t done;
      bool operator<(const Next& o) const {
        return std::tie(peak, live, from, op) < std::tie(o.peak, o.live, o.from, o.op);
      }
    };
    for (int i = 0; i < n; ++i) {
      std::vector<Next> nexts;
      for (size_t s = 0; s < states.size(); ++s) {
        for (const int op : states[s].ready) {
          const auto [during, live] = Effect(states[s], op);
          nexts.push_back(
              {std::max(states[s].peak, during), live, static_cast<int>(s), op, states[s].done ^ hash_[op]});
        }
      }
      std::sort(nexts.begin(), nexts.end());
      std::vector<State> kept;
      std::vector<Made> made;
      std::vector<uint64_t> seen;
      for (const Next& next : nexts) {
        if (kept.size() == width) break;
        if (std::find(seen.begin(), seen.end(), next.done) != seen.end()) continue;
        seen.push_back(next.done);
        kept.push_back(states[next.from]);
        Do(next.op, next.peak, next.live, &kept.back());
        made.push_back({next.from, next.op});
      }
      history.push_back(std::move(made));
      states = std::move(kept);
    }
    std::vector<OpId> result(ops_.size());
    int at = 0;  // the first is the best
    for (int i = n - 1; i >= 0; --i) {
      result[i] = ops_[history[i][at].op];
      at = history[i][at].from;
    }
    return result;
  }

  int64_t work() const { return work_; }

 private:
  struct State {
    std::vector<uint16_t> waits;   // per op
    std::vector<uint16_t> unread;  // per buffer
    std::vector<int> ready;
    int64_t live = 0;  // counted from what is live where the stretch begins
    int64_t peak = 0;
    uint64_t done = 0;
  };
  struct Input {
    int buffer;
    bool forwardable;
  };

  // Bytes in use while the op runs, and afterwards.
  std::pair<int64_t, int64_t> Effect(const State& state, int op) {
    int64_t during = state.live + space_.graph().ops[ops_[op]].workspace_bytes;
    int64_t live = state.live;
    for (const int b : outputs_[op]) {
      during += bytes_[b];
      if (state.unread[b] > 0) live += bytes_[b];
    }
    std::vector<int> taken;
    for (const Input& input : inputs_[op]) {
      if (state.unread[input.buffer] != 1) continue;
      live -= bytes_[input.buffer];
      if (!input.forwardable) continue;
      for (const int b : outputs_[op]) {
        if (bytes_[b] != bytes_[input.buffer] || std::find(taken.begin(), taken.end(), b) != taken.end()) continue;
        taken.push_back(b);
        during -= bytes_[b];
        break;
      }
    }
    work_ += kEffectWork + static_cast<int64_t>(inputs_[op].size() + outputs_[op].size());
    return {during, live};
  }

  void Do(int op, int64_t peak, int64_t live, State* state) {
    work_ += kStateWork + static_cast<int64_t>(ops_.size() + bytes_.size()) / 4;
    state->peak = peak;
    state->live = live;
    state->done ^= hash_[op];
    for (const Input& input : inputs_[op]) --state->unread[input.buffer];
    state->ready.erase(std::find(state->ready.begin(), state->ready.end(), op));
    for (const int other : after_[op]) {
      if (--state->waits[other] == 0) state->ready.push_back(other);
    }
  }

  const OrderSpace& space_;
  std::vector<OpId> ops_;
  std::vector<uint64_t> hash_;
  std::vector<int64_t> bytes_;
  std::vector<std::vector<int>> after_;
  std::vector<std::vector<Input>> inputs_;
  std::vector<std::vector<int>> outputs_;
  State root_;
  int64_t work_ = 0;
};

}  // namespace

StretchOrder ReorderStretch(const OrderSpace& space, const std::vector<OpId>& order, const std::vector<int>& place,
                            int first, int last) {
  Beam beam(space, order, place, first, last);
  StretchOrder result;
  const std::vector<OpId> stretch = beam.Run();
  result.order = order;
  std::copy(stretch.begin(), stretch.end(), result.order.begin() + first);
  result.work = beam.work() + static_cast<int64_t>(order.size());
  return result;
}

}  // namespace lms
