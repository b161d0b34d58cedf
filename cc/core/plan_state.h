// A plan under construction, with its memory profile kept up to date change by change.
//
// Time is divided into two slots per op: ClosureSlot(p), in which everything recomputed just before op p runs, and
// OpSlot(p), in which op p itself runs. A buffer's life is a list of starts (slots in which it is computed) and of
// accesses (slots in which it is read); an instance lives from its start to its last access before the next start.
// Bytes in use per slot lie in a segment tree. The recomputations of one closure slot run one after another, so what
// they hold together is simulated step by step and the difference to the plain sum is charged to the slot: the tree's
// value at every slot equals the peak that Simulate() (liveness.h) finds there. Resident bytes are left out.
//
// Changes are made between Begin() and Commit(); Undo() takes the last committed ones back. Each costs O(log n) per
// access of the buffers it touches. Not thread-safe.

#ifndef LMS_CC_CORE_PLAN_STATE_H_
#define LMS_CC_CORE_PLAN_STATE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/mem_graph.h"
#include "cc/core/plan.h"
#include "cc/core/range_tree.h"

namespace lms {

inline int ClosureSlot(OpId op) { return 2 * op; }
inline int OpSlot(OpId op) { return 2 * op + 1; }
inline OpId OpOfSlot(int slot) { return slot / 2; }

class PlanState {
 public:
  struct Access {
    int slot;
    int count;
  };
  struct Life {
    std::vector<int> starts;       // sorted
    std::vector<Access> accesses;  // sorted by slot
  };
  // The steps of one closure slot, by op, with the buffers that each provides.
  using Steps = std::map<OpId, std::vector<BufferId>>;

  explicit PlanState(const MemGraph& graph);

  const MemGraph& graph() const { return graph_; }
  const RangeTree& bytes() const { return tree_; }
  int slots() const { return slots_; }
  double cost_us() const { return cost_us_; }
  const Life& life(BufferId buffer) const { return lives_[buffer]; }
  const std::map<OpId, Steps>& steps() const { return steps_; }
  bool HasStep(OpId before, OpId op) const;

  // Is an instance of the buffer alive in the slot? Resident buffers always are.
  bool Alive(BufferId buffer, int slot) const;
  // The last slot before `slot` in which an instance is alive; the buffer has been computed by then.
  int AliveUntil(BufferId buffer, int slot) const;

  void Begin();
  // Has `before`'s closure slot compute `buffer` anew. Its producer's inputs are read there: where one is not alive the
  // instance before it is kept until then, unless it is recomputed in the same slot too.
  void Recompute(BufferId buffer, OpId before);
  // Takes the recomputation back: the instance before lives on.
  void Retain(BufferId buffer, OpId before);
  // Ends the changes. Recomputations that nothing reads any more, because of them, go as well.
  void Commit();
  void Undo();

  Plan ToPlan() const;

 private:
  struct Snapshot {
    Life life;
    bool touched = false;
  };

  void AddContribution(BufferId buffer, int sign);
  void Touch(BufferId buffer);
  void TouchSteps(OpId before);
  void MarkDirty(BufferId buffer);
  void AddAccess(BufferId buffer, int slot);
  void RemoveAccess(BufferId buffer, int slot);
  // Takes back recomputations that nothing reads any more.
  void DropUnread();
  void RefreshDirty();
  int64_t Relief(OpId op) const;
  int64_t Correction(OpId before) const;
  // End of the instance that is alive in `slot`, or -1.
  int EndOf(BufferId buffer, int slot) const;

  const MemGraph& graph_;
  int slots_;
  RangeTree tree_;
  std::vector<Life> lives_;
  std::map<OpId, Steps> steps_;
  std::vector<int64_t> relief_;      // per op: bytes that outputs take over from dying inputs
  std::vector<int64_t> correction_;  // per op: of its closure slot
  double cost_us_ = 0;

  // The last transaction: what Undo() restores.
  std::vector<Snapshot> saved_;
  std::vector<BufferId> touched_;
  std::map<OpId, Steps> saved_steps_;
  std::vector<OpId> dirty_ops_;
  std::vector<OpId> dirty_closures_;
  double saved_cost_us_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_PLAN_STATE_H_
