#include "cc/core/search/local_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "cc/core/base/random.h"
#include "cc/core/search/gap_eviction.h"

namespace lms {
namespace {

constexpr double kFirstTemperature = 0.03;  // of the plan's cost
constexpr double kLeastGainUs = 1e-6;
constexpr size_t kMostOpsToCrowd = 1000;
constexpr int64_t kAttemptWork = 50;  // of an attempt, beside what the state counts
constexpr int kMostFailures = 200;

class LocalSearch {
 public:
  LocalSearch(PlanState* state, int64_t limit, uint64_t seed, const LocalSearchLimits& limits)
      : state_(*state),
        limit_(limit),
        recompute_(limits.recompute),
        eviction_(state, limit, limits.interrupt, limits.swap_rules),
        random_(seed),
        work_before_(state->work()) {}

  int64_t Run(const LocalSearchLimits& limits) {
    Plan best = state_.ToPlan();
    double best_us = state_.cost_us();
    double best_excess = Excess();
    double excess = best_excess;
    state_.ForgetHistory();
    int failures = 0;
    while (Work() < limits.work && (best_excess > 0 || best_us > limits.enough_us + kLeastGainUs)) {
      if (limits.interrupt && limits.interrupt()) break;
      state_.AddWork(kAttemptWork);
      const double progress = static_cast<double>(Work()) / static_cast<double>(limits.work);
      const double cost_us = state_.cost_us();
      TakeOut();
      const bool under = Repair();
      // First less excess, then less cost; a little more of either now and then.
      const double luck = kFirstTemperature * (1 - progress) * -std::log(1 - random_.Unit());
      const double new_excess = under ? 0 : Excess();
      const bool good =
          excess > 0 ? new_excess <= excess * (1 + luck) : under && state_.cost_us() <= cost_us + best_us * luck;
      if (!good) {
        state_.UndoAll();
        continue;
      }
      state_.ForgetHistory();
      excess = new_excess;
      if (excess < best_excess || (excess <= best_excess && state_.cost_us() < best_us - kLeastGainUs)) {
        best_us = state_.cost_us();
        best_excess = excess;
        best = state_.ToPlan();
        failures = 0;
      } else if (++failures > kMostFailures) {
        // Back to the best one, from which other ways lead.
        state_.Load(best);
        state_.ForgetHistory();
        excess = best_excess;
        failures = 0;
      }
    }
    state_.Load(best);
    state_.ForgetHistory();
    return Work();
  }

 private:
  int64_t Work() const { return state_.work() - work_before_; }

  // Bytes above the limit, summed over time.
  double Excess() const {
    double sum = 0;
    const RangeTree& bytes = state_.bytes();
    for (int slot = bytes.FirstAbove(0, limit_); slot >= 0; slot = bytes.FirstAbove(slot + 1, limit_)) {
      sum += static_cast<double>(bytes.Max(slot, slot) - limit_);
    }
    return sum;
  }

  // Takes back a part of the plan, chosen at random.
  void TakeOut() {
    const Plan plan = state_.ToPlan();
    struct Part {
      OpId before;
      OpId op;
      const std::vector<BufferId>* provides;  // of a step
      BufferId buffer;                        // of a swap-in
    };
    std::vector<Part> parts;
    parts.reserve(plan.steps.size() + plan.swap_ins.size());
    for (const RecomputeStep& step : plan.steps) parts.push_back({step.before, step.op, &step.provides, kNone});
    for (const SwapIn& swap : plan.swap_ins) {
      parts.push_back({swap.before, state_.graph().buffers[swap.buffer].producer, nullptr, swap.buffer});
    }
    state_.AddWork(state_.slots() / 8 + 2 * static_cast<int64_t>(parts.size()));
    if (parts.empty()) return;
    const int count = static_cast<int>(parts.size());
    const Part& center = parts[random_.Below(count)];
    // Between one and a few dozen steps, small parts more often than large ones.
    const int size = 1 + static_cast<int>(std::min(count * 0.7, std::pow(2.0, 6.0 * random_.Unit())));
    const int kind = random_.Below(3);
    std::vector<std::pair<int64_t, int>> near;
    near.reserve(parts.size());
    for (int i = 0; i < count; ++i) {
      const int64_t time = std::abs(static_cast<int64_t>(parts[i].before) - center.before);
      const int64_t op = std::abs(static_cast<int64_t>(parts[i].op) - center.op);
      // Near in time, near in the graph, or anywhere.
      const int64_t distance = kind == 0 ? time : kind == 1 ? op : random_.Below(1 << 20);
      near.emplace_back(distance, i);
    }
    std::partial_sort(near.begin(), near.begin() + std::min(size, count), near.end());
    state_.Begin();
    for (int i = 0; i < std::min(size, count); ++i) {
      const Part& part = parts[near[i].second];
      if (part.provides == nullptr) {
        if (!state_.Pinned(part.buffer)) state_.Retain(part.buffer, part.before);
        continue;
      }
      for (const BufferId b : *part.provides) {
        if (!state_.Pinned(b)) state_.Retain(b, part.before);
      }
    }
    state_.Commit();
  }

  bool Repair() {
    EvictionRule rule;
    constexpr double kExponents[] = {0.7, 1.0, 1.4};
    constexpr double kRatios[] = {0.0, 0.25, 1.0};
    rule.cost_exponent = kExponents[random_.Below(3)];
    rule.keep_ratio = kRatios[random_.Below(3)];
    if (random_.Below(4) == 0) rule.aim = 1 - 0.2 * random_.Unit();
    rule.crowd = state_.graph().ops.size() <= kMostOpsToCrowd;
    rule.noise = 0.2 + 1.3 * random_.Unit();
    rule.recompute = recompute_;
    if (state_.link_usable()) {
      constexpr double kPrices[] = {0, 0.05, 0.2, 0.8};
      rule.link_price = kPrices[random_.Below(4)];
    }
    if (!eviction_.Run(rule, &random_)) return false;
    const std::vector<BufferId> changed = state_.Changed();
    eviction_.TakeBack(&changed);
    eviction_.Exchange(&changed);
    return true;
  }

  PlanState& state_;
  int64_t limit_;
  bool recompute_;
  GapEviction eviction_;
  Random random_;
  int64_t work_before_;
};

}  // namespace

int64_t ImproveLocally(PlanState* state, int64_t limit, uint64_t seed, const LocalSearchLimits& limits) {
  return LocalSearch(state, limit, seed, limits).Run(limits);
}

}  // namespace lms
