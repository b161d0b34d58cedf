// Properties of the planner on many random graphs: lms_planner_properties [GRAPHS [FIRST_SEED]]
//
// Every third graph may be swapped, too. For each graph and each of four random budgets between what a single op needs
// and the peak:
//   - the plan is valid, and its peak, in the plain simulator, is what the planner says;
//   - it is under the budget, or the budget is declared infeasible and lies below the least peak that the planner
//   knows;
//   - no bound is above the cost of a plan (lower_bound.h);
//   - the same call gives the same plan;
//   - a larger budget never costs more than a smaller one. (Planned with little work for speed; where it does, both are
//     planned again with the work of the defaults, and then it counts.)
// And of orders (memory_order.h), on branches:
//   - an order is allowed, its peak is what the simulator says and not above that of the order given, nor below the
//   bound; a limit that an order is known for is met, one below the bound is not.
// Prints a line per failure and a summary; exit status 1 if there was any failure.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cc/core/order/memory_order.h"
#include "cc/core/order/order_space.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/lower_bound.h"
#include "cc/core/text/text_format.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

// No clock: the same on any machine.
const PlannerOptions kOptions{/*recompute=*/true, /*move=*/true, /*work=*/200000};

int failures = 0;
int replanned = 0;

void Fail(uint64_t seed, int64_t limit, const std::string& what) {
  ++failures;
  std::printf("seed %llu, limit %lld: %s\n", static_cast<unsigned long long>(seed), static_cast<long long>(limit),
              what.c_str());
}

// Every third graph has a link to swap over, slow or fast, with one lane or two.
PlannerOptions OptionsFor(uint64_t seed) {
  PlannerOptions options = kOptions;
  if (seed % 3 != 0) return options;
  testing::Random random(seed);
  options.link.out_bytes_per_us = 1 << random.Below(14);
  options.link.in_bytes_per_us = 1 << random.Below(14);
  options.link.out_share = options.link.in_share = random.OneIn(2) ? 0.5 : 1;
  options.recompute = !random.OneIn(4);
  return options;
}

int CheckGraph(uint64_t seed) {
  const PlannerOptions options = OptionsFor(seed);
  testing::Random random(seed * 7919);
  const MemGraph graph = testing::RandomGraph(seed, 3 + random.Below(28));
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const int64_t low = LowerBoundBytes(graph);
  const PlannerResult least = PlanForLeastPeak(graph, options);
  if (least.peak_bytes > peak) Fail(seed, 0, "the least peak is above the peak");
  if (least.peak_bytes < low) Fail(seed, 0, "the least peak is below what a single op needs");
  std::vector<int64_t> limits;
  for (int i = 0; i < 4; ++i) {
    const int64_t range = std::max<int64_t>(1, peak - low);
    limits.push_back(low + static_cast<int64_t>(random.Next() % static_cast<uint64_t>(range)));
  }
  std::sort(limits.begin(), limits.end());
  int feasible = 0;
  double last_us = -1;
  int64_t last_limit = 0;
  for (const int64_t limit : limits) {
    const PlannerResult result = PlanForLimit(graph, limit, options);
    const std::string wrong = ValidatePlan(graph, result.plan);
    if (!wrong.empty()) Fail(seed, limit, "not valid: " + wrong);
    const int64_t simulated = Simulate(graph, result.plan).peak_bytes;
    if (simulated != result.peak_bytes) Fail(seed, limit, "another peak than simulated");
    if (result.feasible != (simulated <= limit)) Fail(seed, limit, "feasible says something else than the peak");
    if (!result.feasible && least.peak_bytes <= limit) Fail(seed, limit, "declared infeasible, but a plan is known");
    if (result.bound_us > result.cost_us + 1e-6 && result.feasible) Fail(seed, limit, "cheaper than the bound");
    if (seed % 8 == 0 && WritePlan(graph, PlanForLimit(graph, limit, options).plan) != WritePlan(graph, result.plan)) {
      Fail(seed, limit, "another plan the second time");
    }
    if (!result.feasible) continue;
    ++feasible;
    double cost_us = result.cost_us;
    if (last_us >= 0 && cost_us > last_us + 1e-6) {
      PlannerOptions defaults = options;
      defaults.work = PlannerOptions().work;
      cost_us = PlanForLimit(graph, limit, defaults).cost_us;
      const double smaller_us = std::min(last_us, PlanForLimit(graph, last_limit, defaults).cost_us);
      ++replanned;
      if (cost_us > smaller_us + 1e-6) {
        Fail(seed, limit, "costs " + std::to_string(cost_us) + ", a smaller budget " + std::to_string(smaller_us));
      }
    }
    if (last_us < 0 || cost_us < last_us) {
      last_us = cost_us;
      last_limit = limit;
    }
  }
  return feasible;
}

void CheckOrder(uint64_t seed) {
  constexpr int64_t kWork = 300000;
  const MemGraph graph = testing::RandomBranches(seed, 5 + static_cast<int>(seed % 60));
  const int64_t peak = Simulate(graph, Plan()).peak_bytes;
  const MemoryOrder least = OrderForLeastPeak(graph, kWork);
  if (!OrderSpace(graph).Allows(least.order)) Fail(seed, 0, "the order is not allowed");
  if (Simulate(Reordered(graph, least.order), Plan()).peak_bytes != least.peak_bytes) {
    Fail(seed, 0, "the order has another peak than simulated");
  }
  if (least.peak_bytes > peak) Fail(seed, 0, "the order is worse than the one given");
  if (least.bound_bytes > least.peak_bytes) Fail(seed, 0, "the order is better than its bound");
  if (!OrderForLimit(graph, peak, kWork).feasible) Fail(seed, peak, "the order given is not good enough");
  if (OrderForLimit(graph, least.bound_bytes - 1, kWork).feasible) Fail(seed, 0, "an order beats the bound");
}

int Run(int graphs, uint64_t first_seed) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point told = Clock::now();
  int64_t feasible = 0;
  for (int i = 0; i < graphs; ++i) {
    feasible += CheckGraph(first_seed + static_cast<uint64_t>(i));
    CheckOrder(first_seed + static_cast<uint64_t>(i));
    if (Clock::now() - told > std::chrono::seconds(10)) {
      std::fprintf(stderr, "  %d of %d graphs, %d failures\n", i + 1, graphs, failures);
      told = Clock::now();
    }
  }
  std::printf("%d graphs, %d budgets (%lld of them feasible, %d planned again): %d failures\n", graphs, 4 * graphs,
              static_cast<long long>(feasible), replanned, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lms

int main(int argc, char** argv) {
  const int graphs = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 20000;
  const uint64_t first_seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  return lms::Run(graphs, first_seed);
}
