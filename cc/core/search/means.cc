#include "cc/core/search/means.h"

#include <cmath>
#include <limits>
#include <memory>

#include "cc/core/search/means_recompute.h"
#include "cc/core/search/means_swap.h"

namespace lms {

double ScoreOf(double cost_us, double gain, const EvictionRule& rule) {
  if (gain <= 0) return std::numeric_limits<double>::infinity();
  return std::pow(cost_us, rule.cost_exponent) / gain;
}

void Offer(const EvictionRun& run, Gap gap, std::vector<Gap>* gaps) {
  if (run.rule.noise > 0) gap.score *= std::exp(run.rule.noise * (2 * run.random->Unit() - 1));
  if (std::isfinite(gap.score)) gaps->push_back(gap);
}

const std::vector<MeansMaker>& AllMeans() {
  static const auto* const all = new std::vector<MeansMaker>{
      [](PlanState* state, const SwapRules& rules) { return std::make_unique<SwapMeans>(state, rules); },
      [](PlanState* state, const SwapRules& /*rules*/) { return std::make_unique<RecomputeMeans>(state); },
  };
  return *all;
}

}  // namespace lms
