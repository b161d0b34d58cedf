// One step of a program, as memory sees it.
//
// A MemGraph is a list of ops and a list of buffers. A buffer is storage: tensors that share it (Identity, Reshape and
// other views) are one buffer, and the view is an op that reads nothing and writes nothing. Before planning the ops are
// put in execution order (schedule.h); from then on an op's id is its position in the step.
//
// Plain data, no TensorFlow types: importers fill it, planners read it. Buffers keep their ids when ops are reordered.

#ifndef LMS_CC_CORE_GRAPH_MEM_GRAPH_H_
#define LMS_CC_CORE_GRAPH_MEM_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lms {

using OpId = int32_t;
using BufferId = int32_t;
inline constexpr int32_t kNone = -1;

// What the user has said of a buffer: it goes before what a planner would rather do.
enum class Hint : uint8_t {
  kNone,
  kKeep,       // never dropped
  kRecompute,  // dropped, and computed again, whether memory is short or not
  kSwap,       // likewise copied to another tier and back
};

struct MemBuffer {
  std::string name;  // of the tensor that owns the storage: "node:port"
  int64_t bytes = 0;
  int64_t piece_bytes = 0;           // where it is asked for in pieces, one after the other: bytes of the largest
  OpId producer = kNone;             // op that allocates it; kNone: present before the step begins
  bool resident = false;             // present during the whole step (weights, arguments, constants): never evicted
  bool escapes = false;              // outlives the step (fetched, returned): once produced it stays
  bool evictable = false;            // may be dropped and recomputed between two uses
  bool swappable = true;             // its bytes may be copied to the host or to disk and back, in a gap
  std::string keep_reason;           // why not evictable
  bool no_more_readers = false;      // no recomputation may read it: who holds it matters to a reader that it has
  Hint hint = Hint::kNone;           // carried out by ApplyHints (hinted_plan.h), but for kKeep: that is not evictable
  bool hint_named = false;           // the tensor itself was named, not what it is a part of
  std::vector<OpId> overwritten_by;  // ops that change the storage in place: a recomputation that reads it precedes all
};

struct MemOp {
  std::string name;
  std::string type;
  double cost_us = 0;                 // predicted run time, microseconds
  int64_t workspace_bytes = 0;        // scratch, held only while the op runs; importers may leave it 0
  std::vector<OpId> deps;             // ops that must have run before, through data or control
  std::vector<BufferId> inputs;       // distinct buffers read, through views too
  std::vector<BufferId> outputs;      // buffers allocated
  std::vector<BufferId> forwardable;  // inputs whose storage an output of the same size may take over
  bool recomputable = false;          // a copy computes the same bytes, with no other effect
  std::string keep_reason;            // why not recomputable
  bool anchor = true;                 // runs exactly once in every step: a copy may wait for it
};

struct MemGraph {
  std::vector<MemOp> ops;
  std::vector<MemBuffer> buffers;

  // Bytes of buffers present during the whole step.
  int64_t ResidentBytes() const;
  double TotalCostUs() const;
  // May the op run again just before op `before`, for what its inputs are by then?
  bool InputsLast(OpId op, OpId before) const;

  // "" when ids are in range, buffers and producers agree and no list holds a duplicate; otherwise what is wrong.
  std::string Validate() const;
};

// The same graph with ops renumbered so that op order[i] becomes op i. `order` is a permutation of the ops.
MemGraph Reordered(const MemGraph& graph, const std::vector<OpId>& order);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_MEM_GRAPH_H_
