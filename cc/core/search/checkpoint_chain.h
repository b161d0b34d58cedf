// Optimal checkpointing over the chain of a step's stages: seeds for tight budgets.
//
// A training step computes forwards up to its turn (the loss), then visits what it has saved in reverse. The forward
// part is cut into stages where little crosses the cut: at articulation points (one buffer), or at small frontiers
// where there are none (skip connections). A stage can be run to pass on its frontier only, or to save all that its own
// backward window reads. Over this chain dynamic programming finds the least forward work for every amount of memory:
//
//   best(i, j, m): stages i..j are to be reversed, the frontier before i is stored (outside m bytes), as the least of
//     - run i and save everything, then best(i + 1, j, m - saved(i))
//     - for each k: run i..k-1 passing on, then best(k, j, m - frontier(k - 1)), then best(i, k - 1, m)
//
// The recurrence is that of Griewank and Walther, "Algorithm 799: Revolve" (2000) for chains of equal steps, and of
// Beaumont et al., "Optimal checkpointing for heterogeneous chains" (2019), here over stages of any inner shape. Memory
// is counted in units (exact where the sizes have a common divisor that is large enough). What the stages hide, the
// state that the decisions are applied to knows exactly: a seed is checked, and repaired, there.

#ifndef LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_
#define LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/plan_state.h"

namespace lms {

class CheckpointChain {
 public:
  // Finds the turn and the stages of the graph; `most_stages` bounds their number (by merging).
  CheckpointChain(const MemGraph& graph, int most_stages);

  // Fewer than two stages: nothing to decide.
  bool usable() const { return stages_.size() >= 2; }
  int stages() const { return static_cast<int>(stages_.size()); }

  // Solves for all amounts of memory up to `most_bytes` (resident excluded). O(stages^3 * units).
  void Solve(int64_t most_bytes);

  // What cutting the graph into stages and Solve() have taken, in steps of work.
  int64_t work() const { return work_; }

  // The amounts that Solve() distinguishes are 0 .. levels() - 1; the least one with a solution, or levels().
  int levels() const { return units_ + 1; }
  int LeastLevel() const;

  // The recomputations of the solution for a level, in one commit on a fresh state.
  void Apply(int level, PlanState* state) const;

 private:
  struct Stage {
    OpId first = 0;  // forward ops first..last
    OpId last = 0;
    OpId window = kNone;           // op with which its backward window begins
    std::vector<BufferId> passed;  // needed to pass on the frontier behind it, in order of production
    std::vector<BufferId> saved;   // needed for its own window and the frontier
    std::vector<BufferId> own;     // needed for its own window alone
    double pass_us = 0;
    double save_us = 0;
    double own_us = 0;
    int64_t save_bytes = 0;       // held from saving it until its window, beyond the frontier before it
    int64_t pass_peak = 0;        // while it is run to pass on, with the frontier before it...
    int64_t pass_peak_first = 0;  // ...and without
    int64_t save_peak_first = 0;  // while it is run to save, without the frontier before it
    int64_t own_peak_first = 0;   // the same for its own window alone
    int64_t window_peak = 0;      // in its window, with what it saved, without earlier stages
    int64_t gradients = 0;        // held when its window begins
  };

  void FindTurn();
  void FindStages(int most_stages);
  void MeasureStages(const PlanState& keep_everything);
  std::vector<BufferId> Needed(const Stage& stage, const std::vector<BufferId>& wanted) const;
  double Cost(const std::vector<BufferId>& buffers) const;
  int64_t Peak(const Stage& stage, const std::vector<BufferId>& buffers, const std::vector<BufferId>& held,
               bool with_frontier) const;
  size_t Cell(int i, int j) const;
  int Units(int64_t bytes) const;

  const MemGraph& graph_;
  OpId turn_ = 0;
  std::vector<OpId> last_forward_read_;  // per buffer: by an op up to the turn; kNone if there is none
  std::vector<OpId> first_backward_read_;
  std::vector<OpId> last_backward_read_;
  std::vector<Stage> stages_;
  std::vector<std::vector<BufferId>> frontier_;  // behind each stage

  int64_t work_ = 0;
  int units_ = 0;
  int64_t unit_bytes_ = 1;
  std::vector<float> cost_;      // [i, j][m]
  std::vector<int16_t> choice_;  // likewise: 0: none, 1: save i, k + 2: pass on up to k
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_CHECKPOINT_CHAIN_H_
