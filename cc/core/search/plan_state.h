// A plan under construction, with its memory profile kept up to date change by change.
//
// Time is divided into two slots per op: ClosureSlot(p), in which everything recomputed just before op p runs, and
// OpSlot(p), in which op p itself runs. A buffer's life is a list of starts (slots in which it is computed) and of
// accesses (slots in which it is read); an instance lives from its start to its last access before the next start.
// Bytes in use per slot lie in a segment tree. The recomputations of one closure slot run one after another, so what
// they hold together is simulated step by step and the difference to the plain sum is charged to the slot: the tree's
// value at every slot equals the peak that Simulate() (liveness.h) finds there. Resident bytes are left out.
//
// An op whose first results nobody reads any more is moved (plan.h): its own slot stays empty, and its first
// recomputation costs nothing. Commit() finds these ops, and those that are needed at their own place again.
//
// Swaps: a swap-in is a start in a closure slot, which reads nothing; a swap-out holds its instance until its op's
// slot. What waiting for transfers costs is estimated by promises on the link (link_time.h).
//
// Changes are made between Begin() and Commit(). Every commit is kept in a history, and can be undone in reverse order,
// until the history is forgotten. A change costs O(log n) per access of the buffers it touches. Not thread-safe.

#ifndef LMS_CC_CORE_SEARCH_PLAN_STATE_H_
#define LMS_CC_CORE_SEARCH_PLAN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cc/core/base/range_tree.h"
#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"
#include "cc/core/search/link_time.h"

namespace lms {

inline int ClosureSlot(OpId op) { return 2 * op; }
inline int OpSlot(OpId op) { return 2 * op + 1; }
inline OpId OpOfSlot(int slot) { return slot / 2; }
inline bool IsClosureSlot(int slot) { return slot % 2 == 0; }

class PlanState {
 public:
  struct Access {
    int slot;
    int count;
  };
  struct SwappedIn {
    int slot;
    LinkTime::Promise promise;
  };
  struct Life {
    std::vector<int> starts;            // sorted
    std::vector<Access> accesses;       // sorted by slot
    std::vector<SwappedIn> swapped_in;  // those of the starts that are swap-ins, sorted
    int held_until = -1;                // slot of the op by which its swap-out is done; -1: it is not swapped
    LinkTime::Promise swapped_out;
  };
  // How a buffer may be swapped through a gap.
  struct SwapWay {
    OpId by = kNone;  // of its swap-out; kNone: it is swapped out already, early enough
    OpId at = kNone;  // op before which the swap-in begins
    LinkTime::Promise out;
    LinkTime::Promise in;
    double cost_us = 0;  // stalls, and what moving the bytes takes of the ops' time
    double link_us = 0;  // that the link is busy
  };
  // One recomputation of a closure slot, with the buffers that it provides, sorted.
  struct Step {
    OpId op;
    std::vector<BufferId> provides;
  };

  // The graph must outlive the state. Without `move` every op also runs at its own place. `link`: nothing is swapped
  // where it is not usable.
  explicit PlanState(const MemGraph& graph, bool move = true, const SwapLink& link = {});

  const MemGraph& graph() const { return *graph_; }
  const RangeTree& bytes() const { return tree_; }
  int slots() const { return slots_; }
  double cost_us() const { return cost_us_; }
  int swapped_buffers() const { return swapped_buffers_; }
  bool MaySwap(BufferId buffer) const {
    const MemBuffer& b = graph_->buffers[buffer];
    return link_.has_value() && b.swappable && !b.resident && !b.no_more_readers && b.producer != kNone;
  }
  bool link_usable() const { return link_.has_value(); }
  const LinkTime& link() const { return *link_; }  // where it is usable
  const Life& life(BufferId buffer) const { return lives_[buffer]; }
  // The recomputations just before an op, sorted by op.
  const std::vector<Step>& steps(OpId before) const { return steps_[before]; }
  bool HasStep(OpId before, OpId op) const;
  bool Moved(OpId op) const { return moved_[op]; }
  // May the op run as late as just before `before`, for all that waits for it in another way than by its results?
  bool MayMoveTo(OpId op, OpId before) const { return move_ && before <= latest_move_[op]; }

  // What all buffers that are swapped take of the tier.
  int64_t stored_bytes() const { return stored_bytes_; }
  // What swapping the buffer from slot `opens`, where it is used last, to the beginning of op `before` costs. `by` and
  // `at` kNone: at leisure, as the link is free; otherwise by then and from then on, stalled if need be.
  SwapWay FindSwap(BufferId buffer, int opens, OpId before, OpId by, OpId at) const;

  // Is an instance of the buffer alive in the slot? Resident buffers always are.
  bool Alive(BufferId buffer, int slot) const;
  // The last slot up to `slot` in which an instance is alive; -1 if the buffer has not been computed by then.
  int AliveUntil(BufferId buffer, int slot) const;

  // The buffer's swap-in of that slot, or null; and what it costs, with its share of the swap-out.
  const SwappedIn* SwappedInAt(BufferId buffer, int slot) const;
  double CostOfSwap(BufferId buffer, const SwappedIn& in) const;

  // The first slot from `slot` on in which the buffer is read; -1 if there is none.
  int FirstReadFrom(BufferId buffer, int slot) const;

  // The last slot before `slot` in which the buffer is computed or read; -1 if there is none.
  int LastNeededBefore(BufferId buffer, int slot) const;

  void Begin();
  // Has `before`'s closure slot compute `buffer` anew. Its producer's inputs are read there: where one is not alive the
  // instance before it is kept until then, unless it is recomputed in the same slot too.
  void Recompute(BufferId buffer, OpId before);
  // Has `buffer` swapped in just before op `way.at`, and out by `way.by` (by kNone: it is swapped out already).
  void Swap(BufferId buffer, const SwapWay& way);
  // Takes the recomputation, or the swap-in, back: the instance before lives on.
  void Retain(BufferId buffer, OpId before);
  // What has been decided so far is to stay: whoever improves a plan takes nothing back of what is computed or swapped
  // in of pinned buffers, as instances before it would live on.
  void Pin();
  bool Pinned(BufferId buffer) const;
  bool PinnedAt(BufferId buffer, int slot) const;

  // Ends the changes. Recomputations that nothing reads any more, because of them, go as well.
  void Commit();

  // Undoes the last commit that has not been forgotten.
  void Undo();
  // Undoes all of these.
  void UndoAll();
  void ForgetHistory() { history_.clear(); }

  // Steps of computation so far, each of some tens of nanoseconds: a measure of time that is the same everywhere.
  int64_t work() const { return work_; }
  void AddWork(int64_t steps) { work_ += steps; }

  // Buffers changed by the commits in the history, sorted.
  std::vector<BufferId> Changed() const;

  Plan ToPlan() const;
  // Replaces what has been decided by a valid plan, in one commit.
  void Load(const Plan& plan);

 private:
  struct Change {
    std::vector<std::pair<BufferId, Life>> lives;
    std::vector<std::pair<OpId, std::vector<Step>>> steps;
    std::vector<OpId> flipped;  // ops whose moved_ changed, each as often as it did
    double cost_us = 0;
    int swapped_buffers = 0;
    int64_t stored_bytes = 0;
  };

  void FindLatestMoves();
  void LoadSwaps(const Plan& plan);
  bool RetainSwapIn(BufferId buffer, int slot);
  void DropSwapOut(BufferId buffer);
  double Cost(BufferId buffer, const LinkTime::Promise& promise) const;
  void AddContribution(BufferId buffer, int sign);
  void Touch(BufferId buffer);
  void TouchSteps(OpId before);
  void MarkDirty(BufferId buffer);
  void AddAccess(BufferId buffer, int slot);
  void RemoveAccess(BufferId buffer, int slot);
  void ReadInputs(OpId op, int slot);
  void UnreadInputs(OpId op, int slot);
  // Takes back recomputations that nothing reads any more; true if there were any.
  bool DropUnread();
  // Moves ops that can be moved, and moves back those that cannot.
  void ResolveMoves();
  bool ShouldMove(OpId op) const;
  void SetMoved(OpId op, bool moved);
  void RefreshDirty();
  int64_t Relief(OpId op) const;
  int64_t Correction(OpId before) const;
  // End of the instance that is alive in `slot`, or -1.
  int EndOf(BufferId buffer, int slot) const;

  const MemGraph* graph_;
  bool move_;
  int slots_;
  RangeTree tree_;
  std::vector<Life> lives_;
  std::vector<std::vector<Step>> steps_;  // per op: of its closure slot
  std::vector<bool> moved_;               // per op
  std::vector<OpId> latest_move_;         // per op: see MayMoveTo
  std::vector<int64_t> relief_;           // per op: bytes that outputs take over from dying inputs
  std::vector<int64_t> correction_;       // per op: of its closure slot
  std::optional<LinkTime> link_;
  double cost_us_ = 0;
  int swapped_buffers_ = 0;
  int64_t stored_bytes_ = 0;
  int64_t work_ = 0;

  std::vector<Change> history_;
  std::vector<std::pair<BufferId, int>> pinned_;  // starts, sorted

  // Of the change that is being made.
  int64_t change_ = 0;
  std::vector<int64_t> touched_in_;        // per buffer: the last change that touched it
  std::vector<int64_t> steps_touched_in_;  // per op
  std::vector<BufferId> touched_;
  std::set<OpId, std::greater<OpId>> move_candidates_;
  std::vector<OpId> dirty_ops_;
  std::vector<OpId> dirty_closures_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_PLAN_STATE_H_
