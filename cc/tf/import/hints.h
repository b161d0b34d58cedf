// What the user has said of tensors, as it comes with a graph: read, matched to buffers, and given to the planner.
//
// Hints come in two ways. Nodes carry them in the attribute `_lms_hint`, set when the node was made: frames, outermost
// first, separated by ';', each "form|kind|id|ops|where":
//   form   "tensor": one output of the node (`ops` is its port); "region": the node was made in that region, whose
//          results, read by later nodes of the forward part, stay as they are; "checkpoint": like "tensor" and to be
//          kept, all that is not hinted is to be recomputed
//   kind   "keep", "recompute", "swap"
//   id     tells regions apart
//   ops    of a region: types of ops, separated by ',', whose results are kept all the same
//   where  for people
// The innermost frame counts. And the option `_hints` has lines, with fields separated by tabs:
//   "node", name, frames                        of a node that an earlier pass may have replaced by one of that name
//   "call", name, frames                        of what is inlined for a node of that name
//   "layer", form, kind, ops, where, model, path   of nodes in the name scope of a Keras layer: form "region", "leaf"
//                                               (its results too) or "checkpoint" (its results are kept)
//   "model", name, numbers                      of the function's arguments, separated by ',', that are variables of
//   the
//                                               model that the "layer" lines behind it are of; none: they are not known
// Keras numbers the scopes of a further call: "twin_1" may be a second call of the model "twin", or another model. What
// variables the scope's nodes read decides; where they say nothing, and hints of both are given, a warning says so.
//
// What cannot be read is left out. Linear in nodes times the depth of their names, in layers, and in what their models'
// scopes read.

#ifndef LMS_CC_TF_IMPORT_HINTS_H_
#define LMS_CC_TF_IMPORT_HINTS_H_

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/tf/import/import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

inline constexpr char kHintAttr[] = "_lms_hint";

enum class HintForm { kTensor, kRegion, kLeaf, kCheckpoint, kCheckpointLayer };

struct HintFrame {
  HintForm form = HintForm::kTensor;
  Hint hint = Hint::kNone;
  std::string id;                // "" for tensors
  int port = 0;                  // of a tensor
  std::vector<std::string> ops;  // of a region: kept all the same
  std::string where;
};

// The frames of each node of a graph.
class HintMarks {
 public:
  HintMarks() = default;
  HintMarks(const tensorflow::GraphDef& graph, const std::string& named);

  bool any() const { return any_; }
  bool checkpoints() const { return checkpoints_; }
  // Of layers that cannot be told from those of another model.
  const std::vector<std::string>& warnings() const { return warnings_; }
  const HintFrame& frame(int id) const { return frames_[id]; }
  // Outermost first.
  const std::vector<int>& of(int node) const { return of_node_[node]; }

 private:
  int Intern(HintFrame frame);
  std::vector<int> ReadFrames(const std::string& text);

  std::vector<HintFrame> frames_;
  std::unordered_map<std::string, int> ids_;
  std::vector<std::vector<int>> of_node_;
  bool any_ = false;
  bool checkpoints_ = false;
  std::vector<std::string> warnings_;
};

// Hints that were given to a graph's buffers.
class Hints {
 public:
  struct Group {
    Hint hint = Hint::kNone;
    std::string where;
    std::vector<BufferId> buffers;
    int not_followed = 0;
    std::string why_not;  // of one of these
    bool warned = false;  // a warning says so of one of them
  };

  // Gives the graph's buffers their hints. `recompute` and `swap`: may that be done at all? `no_swap`: else, why not.
  void Give(const HintMarks& marks, const tensorflow::GraphDef& graph, bool recompute, bool swap,
            const std::string& no_swap, ImportedGraph* imported);

  bool empty() const { return groups_.empty(); }
  const std::vector<Group>& groups() const { return groups_; }
  // Those of the marks, and tensors that were named and could not be given their hint, each with the reason.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Takes the hints of one group, or of all (-1), from the buffers of a graph that has them (in any order of its ops).
  void Lift(int group, MemGraph* graph) const;
  // The group of a buffer; -1 where it has none.
  int GroupOf(BufferId buffer) const;

 private:
  struct Before {
    bool evictable;
    bool swappable;
    std::string keep_reason;
  };

  std::vector<Group> groups_;
  std::unordered_map<BufferId, std::pair<int, Before>> of_buffer_;
  std::vector<std::string> warnings_;
};

const char* HintName(Hint hint);  // "keep", "recompute", "swap"

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_HINTS_H_
