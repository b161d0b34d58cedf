#include "cc/tf/verify/verify.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/collectives.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/graph/same_op.h"
#include "cc/tf/import/import.h"
#include "cc/tf/predict/execution.h"
#include "cc/tf/stock/layout_fusions.h"
#include "cc/tf/stock/variable_waits.h"
#include "cc/tf/verify/verify_swaps.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

using tensorflow::GraphDef;

// Compares two graphs of which the second is said to be the first with recomputations and swaps behind its nodes.
class Comparison {
 public:
  Comparison(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after, const GraphIndex& new_index,
             const Deadline& deadline)
      : before_(before),
        library_(tensorflow::OpRegistry::Global(), before.library()),
        old_(old_index),
        after_(after),
        new_(new_index),
        pace_(deadline) {}

  absl::Status Check() const {
    if (after_.node_size() < before_.node_size()) return absl::InternalError("nodes are missing");
    absl::Status status;
    // A swap that is wrong makes its readers wrong: it is named first.
    for (int i = before_.node_size(); status.ok() && i < after_.node_size(); ++i) {
      if (IsSwap(i)) status = CheckAdded(i);
    }
    for (int i = 0; status.ok() && i < before_.node_size(); ++i) status = CheckOriginal(i);
    for (int i = before_.node_size(); status.ok() && i < after_.node_size(); ++i) status = CheckAdded(i);
    for (int i = 0; status.ok() && i < before_.node_size(); ++i) status = CheckRuns(i);
    return status;
  }

 private:
  absl::Status CheckOriginal(int node) const {
    const std::string& name = before_.node(node).name();
    if (after_.node(node).name() != name) return absl::InternalError("node " + name + " is missing");
    if (!SameButInputs(before_.node(node), after_.node(node))) {
      return absl::InternalError("node " + name + " was changed");
    }
    const NodeIndex& was = old_[node];
    const NodeIndex& is = new_[node];
    const bool result = after_.node(node).op() == "_Retval";
    const bool fixed = result || IsControlFlow(after_.node(node).op());
    const bool same_controls = was.controls == is.controls || MayWaitForMore(node);
    if (fixed && !(was.inputs == is.inputs && same_controls)) {
      return absl::InternalError(result ? "the result " + name + " was rerouted"
                                        : name + " decides what runs and has other inputs than before");
    }
    // In another loop or branch it would not run when it did, or not at all.
    if (!old_.SamePlace(node, new_, node)) {
      return absl::InternalError("node " + name + " was moved into or out of a loop or branch");
    }
    if (!SameInputs(node, node)) return absl::InternalError("node " + name + " has other inputs than before");
    if (was.controls == is.controls) return absl::OkStatus();
    const std::unordered_set<int> waits(is.controls.begin(), is.controls.end());
    for (const int control : was.controls) {
      if (waits.count(control) == 0) {
        return absl::InternalError("node " + name + " no longer waits for " + before_.node(control).name());
      }
    }
    return absl::OkStatus();
  }

  // Loops and branches may have to wait until they begin (sum_holders.h), and loops until they go on. Where they are
  // stays what it is.
  bool MayWaitForMore(int node) const {
    const tensorflow::NodeDef& def = before_.node(node);
    if (def.op() != "Switch") return IsEnter(def) || IsNextIteration(def);
    return old_[node].inputs.size() == 2 && before_.node(old_[node].inputs[1].node).op() != "LoopCond";
  }

  absl::Status CheckRuns(int node) const {
    const NodeIndex& was = old_[node];
    const NodeIndex& is = new_[node];
    const bool same = was.in_frame == is.in_frame && was.conditional == is.conditional && was.live >= is.live;
    // All readers of an op may have moved on to recomputations of it: then its first run is left out.
    const bool dropped = was.live && !is.live;
    if (same && (!dropped || WhyNotRecomputable(before_.node(node)).empty())) return absl::OkStatus();
    return absl::InternalError("node " + before_.node(node).name() + " no longer runs when it did");
  }

  absl::Status CheckAdded(int node) const {
    const std::string& name = after_.node(node).name();
    if (!IsOwnName(name)) return absl::InternalError("a node of a foreign name was added: " + name);
    // What only first runs read that are left out is left out with them.
    const bool left_out = !new_[node].live && !new_[node].readers.empty();
    if (!new_[node].live && !left_out) return absl::InternalError("the added node " + name + " never runs");
    const int original = old_.Find(OriginalName(name));
    if (original < 0) return absl::InternalError(name + " copies no node");
    const bool swap = IsSwap(node);
    if (left_out && !swap) return absl::OkStatus();
    if (old_[original].region < 0 || !old_.SamePlace(original, new_, node)) {
      return absl::InternalError(name + " is in another loop or branch than " + before_.node(original).name());
    }
    if (swap) return CheckSwap(node, original);
    if (!SameButInputs(before_.node(original), after_.node(node)) || !SameInputs(original, node)) {
      return absl::InternalError(name + " is no copy of " + before_.node(original).name());
    }
    const std::string why_not = WhyNotRecomputable(after_.node(node));
    if (!why_not.empty()) return absl::InternalError(name + " must not run twice: " + why_not);
    return absl::OkStatus();
  }

  bool IsSwap(int node) const { return after_.node(node).op() == kSwapOutOp || after_.node(node).op() == kSwapInOp; }

  absl::Status CheckSwap(int node, int original) const {
    absl::Status status = CheckSwapNode(before_, original, after_, new_, node);
    if (!status.ok()) return status;
    const bool in = after_.node(node).op() == kSwapInOp;
    const TensorRef tensor = in ? SwappedTensor(after_, new_, {node, 0}) : new_[node].inputs[0];
    if (tensor.node >= 0 && Source(tensor).node == original && !IsPassThrough(before_.node(original))) {
      return CheckSwappedType(before_, library_, Source(tensor), after_, node);
    }
    return absl::InternalError(after_.node(node).name() + " does not swap a tensor of " +
                               before_.node(original).name());
  }

  // Does `node` of the new graph read the values that `original` read in the old one?
  bool SameInputs(int original, int node) const {
    const std::vector<TensorRef>& was = old_[original].inputs;
    const std::vector<TensorRef>& is = new_[node].inputs;
    if (was.size() != is.size()) return false;
    for (size_t i = 0; i < was.size(); ++i) {
      if (!(was[i] == is[i]) && !(Source(was[i]) == Source(is[i]))) return false;
    }
    return true;
  }

  // The tensor of the old graph that has the same value, behind recomputations, swaps and nodes that hand their input
  // on.
  TensorRef Source(TensorRef tensor) const {
    for (int steps = 0; steps < after_.node_size(); ++steps) {
      pace_.Step();
      if (tensor.node >= before_.node_size()) tensor = SwappedTensor(after_, new_, tensor);
      if (tensor.node >= before_.node_size()) tensor.node = old_.Find(OriginalName(after_.node(tensor.node).name()));
      if (tensor.node < 0 || !IsPassThrough(before_.node(tensor.node))) return tensor;
      const size_t input = static_cast<size_t>(SharedInput(before_.node(tensor.node), tensor.port));
      if (input >= old_[tensor.node].inputs.size()) return tensor;
      tensor = old_[tensor.node].inputs[input];
    }
    return tensor;
  }

  const GraphDef& before_;
  const tensorflow::FunctionLibraryDefinition library_;  // of the old graph
  const GraphIndex& old_;
  const GraphDef& after_;
  const GraphIndex& new_;
  mutable Pace pace_;
};

// The regions of the nodes that were added (behind `originals` others), or 0.
std::vector<int> RegionsOfTheAdded(const GraphIndex& index, int originals) {
  std::vector<int> regions;
  std::vector<bool> known(index.regions(), false);
  for (int i = originals; i < index.size(); ++i) {
    const int region = index[i].region;
    if (!index[i].live || region < 0 || known[region]) continue;
    known[region] = true;
    regions.push_back(region);
  }
  return regions.empty() ? std::vector<int>{0} : regions;
}

// No copy runs into the next iteration. (That each is in the region of its original is known.)
absl::Status CheckIterations(const GraphDef& graph, const GraphIndex& index, int originals) {
  const Loops loops(graph, index);
  for (int i = originals; i < index.size(); ++i) {
    if (!index[i].live || !loops.Straggles(i)) continue;
    return absl::InternalError(graph.node(i).name() + " may still run when the next iteration begins");
  }
  return absl::OkStatus();
}

bool WaitsFor(const NodeIndex& node, int other) {
  const auto from = [other](const TensorRef& input) { return input.node == other; };
  return std::find(node.controls.begin(), node.controls.end(), other) != node.controls.end() ||
         std::any_of(node.inputs.begin(), node.inputs.end(), from);
}

// Each recomputation that reads a variable is waited for by all that change the variable: by an edge of the graph, as
// an import's ops also wait for what it takes a rewrite to add. What was added for gradients of loops came with the
// graph: it hands a read on, which is a value, and lists hold it as they do what stock pushes.
absl::Status CheckVariableOrder(const GraphDef& graph, const GraphIndex& index, const ImportedGraph& imported,
                                const Deadline& deadline) {
  Pace pace(deadline);
  for (size_t i = 0; i < imported.graph.ops.size(); ++i) {
    const MemOp& op = imported.graph.ops[i];
    const int node = imported.node_of_op[i];
    if (!IsOwnName(graph.node(node).name()) || IsLoopName(graph.node(node).name())) continue;
    for (const BufferId b : op.inputs) {
      for (const OpId writer : imported.graph.buffers[b].overwritten_by) {
        const NodeIndex& waiting = index[imported.node_of_op[writer]];
        pace.Step(static_cast<int64_t>(waiting.inputs.size() + waiting.controls.size()));
        if (!WaitsFor(waiting, node)) {
          return absl::InternalError(op.name + " may read a variable after " + imported.graph.ops[writer].name);
        }
      }
    }
  }
  return absl::OkStatus();
}

// What ran before there were data still does; nodes stand where they stood.
absl::Status CheckBeforeData(const GraphDef& graph, const std::vector<bool>& before, const std::vector<bool>& after) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] && !after[i]) return absl::InternalError(graph.node(static_cast<int>(i)).name() + " waits for data");
  }
  return absl::OkStatus();
}

// What a later pass makes one node of two, and computes otherwise than two nodes would, it still does.
absl::Status CheckFusions(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                          const GraphIndex& new_index) {
  const std::vector<int> was = FusedInto(before, old_index, tensorflow::IsMKLEnabled());
  const std::vector<int> is = FusedInto(after, new_index, tensorflow::IsMKLEnabled());
  for (int i = 0; i < old_index.size(); ++i) {
    if (was[i] == is[i] || was[i] == i) continue;
    return absl::InternalError(before.node(i).name() + " would no longer be computed by " + before.node(was[i]).name());
  }
  for (int i = 0; i < old_index.size(); ++i) {
    const bool handed = HandedNotesBy(before, old_index, i, tensorflow::IsMKLEnabled()) >= 0;
    if (handed == (HandedNotesBy(after, new_index, i, tensorflow::IsMKLEnabled()) >= 0)) continue;
    return absl::InternalError(before.node(i).name() + (handed ? " would no longer be" : " would be") +
                               " handed what its forward op has noted");
  }
  return absl::OkStatus();
}

// Each device still runs its collective operations one after the other, in the order in which it ran them before, and
// those of branches that exclude each other in the same place: other processes, of whose graphs nothing is known here,
// count on that.
absl::Status CheckCollectives(const GraphDef& before, const GraphIndex& old_index, const GraphDef& after,
                              const GraphIndex& new_index) {
  const Collectives was = FindCollectives(before, old_index);
  if (was.instances.empty()) return absl::OkStatus();
  const Collectives is = FindCollectives(after, new_index);
  // Nodes stand where they stood.
  if (SameOrder(was, is)) return absl::OkStatus();
  return absl::InternalError("collective operations are no longer in the order that they were in" +
                             (is.problem.empty() ? "" : ": " + is.problem));
}

}  // namespace

absl::Status VerifyRewrite(const tensorflow::grappler::GrapplerItem& original, const GraphIndex& original_index,
                           const tensorflow::grappler::GrapplerItem& rewritten, const TensorSizes& sizes, int threads,
                           const SwapLink& link, MemoryProfile* profile, const Deadline& deadline,
                           const std::string& device, VerifiedRun* run, const std::vector<ArenaSettings>& arenas) {
  GraphIndex index;
  absl::Status status = index.Build(rewritten, deadline);
  if (status.ok()) status = Comparison(original.graph, original_index, rewritten.graph, index, deadline).Check();
  ImportedGraph imported;
  const int originals = original.graph.node_size();
  if (status.ok()) status = CheckIterations(rewritten.graph, index, originals);
  if (status.ok()) status = CheckCollectives(original.graph, original_index, rewritten.graph, index);
  if (status.ok()) status = CheckFusions(original.graph, original_index, rewritten.graph, index);
  if (status.ok()) {
    const std::vector<int> regions = RegionsOfTheAdded(index, originals);
    status = ImportRegions(rewritten, index, sizes, regions, /*hold=*/false, &imported, deadline, device, threads);
  }
  if (status.ok() && imported.enters_last) {
    status = absl::InternalError("there is a cycle: what enters a loop waits for what leaves it");
  }
  if (status.ok()) status = CheckVariableOrder(rewritten.graph, index, imported, deadline);
  if (status.ok() && sizes.data_may_end()) {
    status =
        CheckBeforeData(original.graph, RunBeforeData(original.graph, original_index, deadline), imported.before_data);
  }
  if (status.ok()) status = CheckSwappable(rewritten.graph, imported);
  if (!status.ok()) return status;
  ImportCosts(rewritten, sizes, link, &imported);
  *profile = PredictMemory(rewritten.graph, index, imported, threads, arenas, deadline,
                           run == nullptr ? nullptr : &run->record, Assigned::kStays,
                           run == nullptr || !run->may_place ? nullptr : &run->places);
  if (run != nullptr) {
    std::vector<WorstBytes>& ahead = imported.ahead;
    if (run->iterations_apart) {
      ahead.erase(std::remove_if(ahead.begin(), ahead.end(), [](const WorstBytes& worst) { return !worst.for_good; }),
                  ahead.end());
    }
    run->worst_bytes = profile->peak_bytes;
    if (!ahead.empty()) {
      run->worst_bytes = PeakAtWorst(rewritten.graph, index, imported, threads, arenas, *profile, deadline,
                                     Assigned::kStays, run->places.empty() ? nullptr : &run->places);
    }
    run->imported = std::move(imported);
  }
  return status;
}

}  // namespace lms
