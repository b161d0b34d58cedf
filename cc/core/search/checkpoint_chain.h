// Optimal checkpointing over the chain of a step's stages (chain_stages.h): seeds for tight budgets.
//
// Over the chain dynamic programming finds the least forward work for every amount of memory:
//
//   best(i, j, m): stages i..j are to be reversed, the frontier before i is stored (outside m bytes), as the least of
//     - run i and save everything, then best(i + 1, j, m - saved(i))
//     - for each k: run i..k-1 passing on, then best(k, j, m - frontier(k - 1)), then best(i, k - 1, m)
//
// The recurrence is that of Griewank and Walther, "Algorithm 799: Revolve" (2000) for chains of equal steps, and of
// Beaumont et al., "Optimal checkpointing for heterogeneous chains" (2019), here over stages of any inner shape. Where
// there are more stages than can be solved at once, they are merged into fewer, and a merged stage that is to be
// reversed is a chain of its own. Memory is counted in units (exact where the sizes have a common divisor that is large
// enough). What the stages hide, the state that the decisions are applied to knows exactly: a seed is checked, and
// repaired, there.

#ifndef LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_
#define LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/chain_stages.h"
#include "cc/core/search/plan_state.h"

namespace lms {

// The recurrence over some neighbouring stages of a list.
class Reversal {
 public:
  // Of each stage its own chain, or null.
  using Inner = std::vector<std::unique_ptr<Reversal>>;

  // Stages first .. first + count - 1. The graph and the stages must outlive this. `inner`: empty where no stage is a
  // chain of its own.
  Reversal(const MemGraph& graph, const ChainStages& stages, int first, int count, Inner inner);

  // Bytes that reversing all of them takes at least, as far as the stages tell.
  int64_t LeastBytes() const { return least_[Pair(0, count_ - 1)]; }

  // Solves for 0 .. `units` units of memory. Returns how many sums were compared: O(count^3 * units).
  int64_t Solve(int64_t unit_bytes, int units);

  // Forward work, in microseconds, of reversing all of them with so many units; infinite where these are too few.
  float Cost(int units) const { return cost_[Cell(0, count_ - 1) + units]; }

  // The recomputations of the solution, between the state's Begin() and Commit(). `forward`: it begins with the step's
  // own forward part, in which everything runs in any case.
  void Apply(int units, bool forward, PlanState* state) const;

 private:
  // One way to reverse stages i..j.
  struct Way {
    int16_t choice;
    double cost_us;
    int64_t least;   // bytes while stages are run
    int64_t stored;  // held while the later stages are reversed
    int later;       // these are later..j;
    int earlier;     // afterwards i..earlier are; kNone: that has been done
  };

  template <typename Visit>
  void ForEachWay(int i, int j, const Visit& visit) const;
  int64_t SolveAlone(int i);
  int64_t SolvePair(int i, int j);
  void Run(const std::vector<BufferId>& buffers, OpId before, PlanState* state) const;
  const ChainStage& stage(int i) const { return stages_.stages[first_ + i]; }
  Reversal* inner(int i) const { return inner_.empty() ? nullptr : inner_[i].get(); }
  int64_t OwnBytes(int i) const;
  int Units(int64_t bytes) const;
  static size_t Pair(int i, int j) { return static_cast<size_t>(j) * (j + 1) / 2 + i; }
  size_t Cell(int i, int j) const { return Pair(i, j) * (units_ + 1); }

  const MemGraph& graph_;
  const ChainStages& stages_;
  const int first_;
  const int count_;
  const Inner inner_;
  std::vector<int64_t> stored_;  // [i, k]: bytes of the frontier behind stage k, beyond that before stage i
  std::vector<int64_t> least_;   // [i, j]

  int units_ = 0;
  int64_t unit_bytes_ = 1;
  std::vector<float> cost_;      // [i, j][m]
  std::vector<int16_t> choice_;  // likewise: 0: none, 1: run i and save everything, 2: the stage's own chain, k + 3:
                                 // pass on up to the stage before k
};

class CheckpointChain {
 public:
  // Finds the stages of the graph. So many are solved at once; where there are more, they are merged.
  CheckpointChain(const MemGraph& graph, int most_stages);
  CheckpointChain(const CheckpointChain&) = delete;
  CheckpointChain& operator=(const CheckpointChain&) = delete;

  // Fewer than two stages: nothing to decide.
  bool usable() const { return whole_.has_value(); }
  int stages() const { return static_cast<int>(merged_.stages.size()); }

  // Bytes that the step takes at least (resident excluded), as far as the stages tell.
  int64_t LeastBytes() const { return whole_->LeastBytes(); }

  // Solves for all amounts of memory up to `most_bytes` (resident excluded), in place of what was solved before. So
  // many amounts are told apart at most.
  void Solve(int64_t most_bytes, int most_units = 256);
  // What has been solved for; 0: nothing yet.
  int64_t most_bytes() const { return most_bytes_; }

  // What solving so many stages takes at most, in steps of work.
  static int64_t MostWork(int stages, int units);
  // What all this has taken so far.
  int64_t work() const { return work_; }

  // The amounts that Solve() distinguishes are 0 .. levels() - 1; the least one with a solution, or levels().
  int levels() const { return units_ + 1; }
  int LeastLevel() const;

  // The recomputations of the solution for a level, in one commit on a fresh state.
  void Apply(int level, PlanState* state) const;

 private:
  ChainStages fine_;
  ChainStages merged_;
  std::optional<Reversal> whole_;  // of the merged stages
  int64_t work_ = 0;
  int64_t most_bytes_ = 0;
  int units_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_
