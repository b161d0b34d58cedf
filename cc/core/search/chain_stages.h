// A step's forward part, cut into stages: what checkpointing (checkpoint_chain.h) decides about.
//
// A training step computes forwards up to its turn (the loss), then visits what it has saved in reverse. The forward
// part is cut where little crosses the cut: at articulation points (one buffer), or at small frontiers where there are
// none (skip connections). A stage can be run to pass on its frontier only, or to save all that its own backward window
// reads.

#ifndef LMS_CC_CORE_SEARCH_CHAIN_STAGES_H_
#define LMS_CC_CORE_SEARCH_CHAIN_STAGES_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/search/plan_state.h"

namespace lms {

struct ChainStage {
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

struct ChainStages {
  std::vector<ChainStage> stages;
  std::vector<std::vector<BufferId>> frontiers;  // behind each stage, sorted

  // The stage of an op of the forward part.
  int StageOf(OpId op) const;
};

// Thread-compatible. The graph must outlive it.
class StageFinder {
 public:
  explicit StageFinder(const MemGraph& graph);

  // The last op of each stage that the forward part can be cut into, as finely as is of use; the last one is the turn.
  // Empty where nothing is saved.
  std::vector<OpId> Cuts() const;

  // So many of them at most: the thinnest of each of equal parts of what is saved, and the last.
  std::vector<OpId> Fewer(const std::vector<OpId>& cuts, int most) const;

  // The stages that end with these ops. O(stages * buffers that cross them + ops of a stage squared).
  ChainStages Measured(const std::vector<OpId>& cuts) const;

  // What the constructor and Cuts() have taken, in steps of work.
  int64_t work() const;

 private:
  void FindWindows(const std::vector<std::vector<BufferId>>& saved, ChainStages* found) const;
  void FindSizes(const std::vector<std::vector<BufferId>>& saved, ChainStages* found) const;
  std::vector<BufferId> Needed(const ChainStage& stage, const std::vector<BufferId>& wanted) const;
  double Cost(const std::vector<BufferId>& buffers) const;
  int64_t Peak(const ChainStage& stage, const std::vector<BufferId>& buffers, const std::vector<BufferId>& held,
               bool with_frontier) const;

  const MemGraph& graph_;
  const PlanState keep_everything_;
  OpId turn_ = 0;
  std::vector<OpId> last_forward_read_;  // per buffer: by an op up to the turn; kNone if there is none
  std::vector<OpId> first_backward_read_;
  std::vector<OpId> last_backward_read_;
  std::vector<int64_t> crossing_;  // bytes that cross from op p to p + 1 for the sake of the forward part alone
  std::vector<int64_t> saved_;     // bytes saved up to p
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_CHAIN_STAGES_H_
