// The means of doing without a buffer between two of its reads: to compute it again, to swap it. Gap eviction
// (gap_eviction.h) asks each of them what it could do in a gap and at what price, and has the best ones carried out.
//
// A new means is a class of its own and one more line in AllMeans().

#ifndef LMS_CC_CORE_SEARCH_MEANS_H_
#define LMS_CC_CORE_SEARCH_MEANS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "cc/core/base/random.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/swap_link.h"
#include "cc/core/search/closure.h"
#include "cc/core/search/excess.h"
#include "cc/core/search/plan_state.h"

namespace lms {

struct EvictionRule {
  double cost_exponent = 1;  // of cost in cost / bytes: below 1 prefers large gaps, above 1 cheap ones
  double keep_ratio = 0.25;  // see ClosureRule
  double aim = 1;            // evict down to this share of the limit: TakeBack() has more to choose from
  bool crowd = false;        // where nothing else helps, accept closures that do not fit in their place: slow
  double noise = 0;          // scores are multiplied by a random factor between exp(-noise) and exp(noise)
  double link_price = 0;     // added to a swap's cost, per microsecond that it has the link: keeps it for those that
                             // are dear to recompute
  bool recompute = true;     // else nothing is recomputed...
  bool swap = true;          // ...or nothing swapped
};

// One run of gap eviction.
struct EvictionRun {
  EvictionRule rule;
  int64_t limit = 0;         // bytes, resident excluded: the rule's share of the full one
  Random* random = nullptr;  // needed with noise only
};

// What a means could do in a gap. Gaps are of the state as it was when they were found.
struct Gap {
  BufferId buffer = kNone;
  int opens = -1;       // last slot in which the buffer is needed before the gap
  OpId before = kNone;  // op whose closure slot ends it: that of the next read, or earlier, once the excess is over
  double score = 0;     // what it costs for the excess that it removes
  size_t means = 0;     // its place among those that gap eviction was given
  // Of recomputation.
  bool early = false;
  ClosureRule rule{};
  // Of a swap: see PlanState::FindSwap.
  OpId by = kNone;
  OpId at = kNone;

  bool operator<(const Gap& other) const {  // better
    return std::tie(score, buffer, before) < std::tie(other.score, other.buffer, other.before);
  }
};

// Calls visit(buffer) for those buffers, or where it is null for all of the graph.
template <typename Visit>
void ForBuffers(const MemGraph& graph, const std::vector<BufferId>* buffers, const Visit& visit) {
  if (buffers != nullptr) {
    for (const BufferId b : *buffers) visit(b);
  } else {
    for (size_t b = 0; b < graph.buffers.size(); ++b) visit(static_cast<BufferId>(b));
  }
}

// A gap whose score has become so many times worse since it was found is not taken.
inline constexpr double kMostWorse = 3;
// An op that costs nothing still costs a node to run, microseconds.
inline constexpr double kNodeCostUs = 0.5;
// A plan that costs no more than so much more costs the same.
inline constexpr double kEqualCostUs = 1e-6;

// The score of a gap, the lower the better; +infinity where nothing is gained.
double ScoreOf(double cost_us, double gain, const EvictionRule& rule);

// Adds a gap with its score, as the rule's noise has it, where that is finite.
void Offer(const EvictionRun& run, Gap gap, std::vector<Gap>* gaps);

class Means {
 public:
  virtual ~Means() = default;
  virtual const char* name() const = 0;  // for people

  // Could it ever be used on the buffer?
  virtual bool Serves(BufferId buffer) const = 0;

  // Of a buffer that it serves: offers what could be done between the slot `gap.opens` and the read at `gap.before`,
  // where there is excess.
  virtual void AddGaps(const EvictionRun& run, const Excess& excess, const Gap& gap, std::vector<Gap>* gaps) = 0;

  // Carries out what it has offered as one commit of the state. The buffer is still alive and not needed in the gap,
  // and there is still excess. False, with the state as it was: it is not worth it any more. `anyway`: it is, though
  // it may take memory above the limit elsewhere.
  virtual bool Evict(const EvictionRun& run, const Excess& excess, const Gap& gap, bool anyway) = 0;

  // Takes the place of other means, wherever that costs less and the limit (bytes, resident excluded) holds. Only for
  // `buffers` if given. `go_on` is asked before each change, which is one commit.
  virtual void TakePlaces(int64_t /*limit*/, const std::vector<BufferId>* /*buffers*/,
                          const std::function<bool()>& /*go_on*/) {}
};

using MeansMaker = std::function<std::unique_ptr<Means>(PlanState* state, const SwapRules& rules)>;

// In the order in which they are asked.
const std::vector<MeansMaker>& AllMeans();

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_MEANS_H_
