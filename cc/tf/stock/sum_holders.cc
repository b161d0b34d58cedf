#include "cc/tf/stock/sum_holders.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cc/tf/graph/loops.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/sizes/row_slices.h"
#include "cc/tf/stock/entrances.h"
#include "cc/tf/stock/executor_model.h"
#include "cc/tf/stock/layout_fusions.h"

namespace lms {
namespace {

constexpr uint32_t kHolderRuns = 16;
// Of sums with other readers of their terms. Each may become an edge.
constexpr size_t kMostPairs = 2000000;

// A sum, and somebody else who holds one of its terms: a node that reads it, or a loop or branches that it enters.
struct Pair {
  int sum;
  int reader;  // of a loop the Enter, of branches the Switch
  bool leads_in = false;
};

class Holders {
 public:
  Holders(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes, bool onednn,
          const Deadline& deadline)
      : graph_(graph), index_(index), sizes_(sizes), onednn_(onednn), deadline_(deadline), pace_(deadline) {}

  std::vector<NodeWait> Find() {
    FindPairs();
    if (pairs_.empty()) return {};
    const ExecutorModel model(graph_, index_, onednn_, EdgeDraws::kAny);
    std::vector<Sides> runs;
    std::vector<int> place(index_.size(), -1);
    for (uint32_t seed = 0; seed < kHolderRuns; ++seed) {
      deadline_.Check();
      const std::vector<int> run = model.Run(seed);
      std::fill(place.begin(), place.end(), -1);
      for (size_t i = 0; i < run.size(); ++i) place[run[i]] = static_cast<int>(i);
      Sides sides;
      for (const Pair& pair : pairs_) {
        if (place[pair.sum] < 0 || place[pair.reader] < 0) return {};  // some never ran: nothing is known
        sides.push_back(SideOf(pair, place));
      }
      runs.push_back(std::move(sides));
    }
    const Votes votes = CountVotes(runs);
    const Sides& chosen = MostUsual(runs, votes);
    std::vector<NodeWait> waits;
    for (size_t p = 0; p < pairs_.size(); ++p) {
      if (!IsUsual(votes, p, chosen[p])) continue;
      const auto& [sum, reader, leads_in] = pairs_[p];
      if (chosen[p] == Side::kAfter) {
        waits.push_back({reader, sum});
      } else if (chosen[p] == Side::kBefore && !leads_in) {
        waits.push_back({sum, reader});
      } else if (chosen[p] == Side::kBefore) {
        for (const int way_out : entrances_.at(reader).ways_out) waits.push_back({sum, way_out});
      }
    }
    return waits;
  }

 private:
  // When the reader is done with the term: before the sum, or not; a loop or branch may also have read it and not have
  // ended when the sum runs.
  enum class Side { kBefore, kAfter, kWithin };
  using Sides = std::vector<Side>;  // per pair

  Side SideOf(const Pair& pair, const std::vector<int>& place) const {
    const auto before_sum = [&](int node) { return place[node] >= 0 && place[node] < place[pair.sum]; };
    if (!pair.leads_in) return before_sum(pair.reader) ? Side::kBefore : Side::kAfter;
    const auto& [readers, ways_out, held, gates] = entrances_.at(pair.reader);
    const bool is_loop = IsEnter(graph_.node(pair.reader));
    const bool any_out = std::any_of(ways_out.begin(), ways_out.end(), before_sum);
    const bool all_out = std::all_of(ways_out.begin(), ways_out.end(), before_sum);
    if (any_out && (is_loop || all_out)) return Side::kBefore;
    // The model goes round once. A variable that the loop hands through has left it once that has gone round as often
    // as it does, whatever its bodies still do: nobody knows whether it has by then.
    if (held && !gates.empty() && std::all_of(gates.begin(), gates.end(), before_sum)) return Side::kWithin;
    if (held || std::none_of(readers.begin(), readers.end(), before_sum)) return Side::kAfter;
    // In a loop a reader that is still to come holds the term; in branches it may be in the one that is not taken.
    const bool all_read = std::all_of(readers.begin(), readers.end(), before_sum);
    return is_loop && !all_read ? Side::kAfter : Side::kWithin;
  }

  // Per pair and side, the runs in which the reader is there.
  using Votes = std::vector<std::array<uint32_t, 3>>;

  static Votes CountVotes(const std::vector<Sides>& runs) {
    Votes votes(runs[0].size(), {0, 0, 0});
    for (const Sides& run : runs) {
      for (size_t p = 0; p < run.size(); ++p) ++votes[p][static_cast<size_t>(run[p])];
    }
    return votes;
  }

  static bool IsUsual(const Votes& votes, size_t pair, Side side) {
    return 2 * votes[pair][static_cast<size_t>(side)] > kHolderRuns;
  }

  // The run that is with the majority for the most pairs.
  static const Sides& MostUsual(const std::vector<Sides>& runs, const Votes& votes) {
    const auto usual = [&votes](const Sides& run) {
      size_t count = 0;
      for (size_t p = 0; p < run.size(); ++p) count += IsUsual(votes, p, run[p]) ? 1 : 0;
      return count;
    };
    return *std::max_element(runs.begin(), runs.end(),
                             [&usual](const auto& a, const auto& b) { return usual(a) < usual(b); });
  }

  static std::vector<int> EachOnce(std::vector<int> nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  // The data input in whose storage the tensor lies, whole or as rows of it; -1: it has its own.
  int StorageInput(const TensorRef& tensor) const {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    const int rows_of = MaySliceRows(node) ? sizes_.Of(node.name()).rows_of : -1;
    return rows_of >= 0 ? rows_of : SharedInput(node, tensor.port);
  }

  // Results of the node that others read, in whatever order.
  std::vector<TensorRef> ReadResults(int node) {
    std::vector<TensorRef> results;
    for (const int reader : index_[node].readers) {
      pace_.Step(static_cast<int64_t>(index_[reader].inputs.size()));
      for (const TensorRef& input : index_[reader].inputs) {
        if (input.node == node) results.push_back(input);
      }
    }
    return results;
  }

  // The tensor that allocated the storage.
  TensorRef Root(TensorRef tensor) {
    for (int steps = 0; steps < index_.size(); ++steps) {
      pace_.Step();
      const int shared = StorageInput(tensor);
      if (shared < 0 || shared >= static_cast<int>(index_[tensor.node].inputs.size())) break;
      tensor = index_[tensor.node].inputs[shared];
    }
    return tensor;
  }

  // Live nodes that read the tensor, through views too.
  // `entries`: those by which it enters loops and branches, which pass it on.
  std::vector<int> Readers(const TensorRef& root, std::vector<int>* entries) {
    std::vector<int> found;
    std::vector<TensorRef> tensors{root};
    std::set<std::pair<int, int>> seen{{root.node, root.port}};
    for (size_t t = 0; t < tensors.size(); ++t) {
      const TensorRef tensor = tensors[t];
      for (const int reader : index_[tensor.node].readers) {
        const std::vector<TensorRef>& inputs = index_[reader].inputs;
        pace_.Step(10 + static_cast<int64_t>(inputs.size()));
        if (!index_[reader].live) continue;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (!(inputs[i] == tensor)) continue;
          if (LeadsIn(graph_.node(reader), static_cast<int>(i))) entries->push_back(reader);
          const int port = IsPassThrough(graph_.node(reader)) ? static_cast<int>(i) : 0;
          std::vector<TensorRef> views{{reader, port}};
          if (StorageInput(views[0]) != static_cast<int>(i)) {
            found.push_back(reader);
            continue;
          }
          if (MaySliceRows(graph_.node(reader))) views = ReadResults(reader);
          for (const TensorRef& view : views) {
            if (seen.emplace(view.node, view.port).second) tensors.push_back(view);
          }
        }
      }
    }
    return found;
  }

  // Is what the node makes held by its readers alone? Arguments, constants and variables are held by others, and what
  // comes out of a branch or a loop may be.
  bool MadeForReaders(int node) const {
    const std::string& type = graph_.node(node).op();
    return !index_[node].inputs.empty() && !IsControlFlow(type) && !IsVariableRead(type) && !index_.Fetched(node);
  }

  bool MayWait(int node, int sum) const {
    const std::string& type = graph_.node(node).op();
    return index_[node].region >= 0 && index_[node].region == index_[sum].region && !IsControlFlow(type) &&
           type != "_Retval" && type != "_DeviceRetval" && graph_.node(node).device() == graph_.node(sum).device() &&
           !may_be_fused_[node];
  }

  // May the loop or branches behind it begin after the sum, or the sum wait for their end? Not within a loop: its
  // iterations may have them on different sides.
  bool MayBePutAside(int entry, int sum) const {
    if (index_[sum].frame != 0 || index_[entry].region < 0 || index_[sum].region < 0 || may_be_fused_[sum])
      return false;
    if (graph_.node(entry).device() != graph_.node(sum).device()) return false;
    if (!IsEnter(graph_.node(entry))) return index_[entry].region == index_[sum].region;
    const int frame = index_[entry].frame;
    return frame > 0 && index_.frame(frame).parent == 0 &&
           index_.region(index_[entry].region).conditions == index_.region(index_[sum].region).conditions;
  }

  void FindPairs() {
    for (int sum = 0; sum < index_.size(); ++sum) {
      const std::vector<TensorRef>& terms = index_[sum].inputs;
      if (!index_[sum].live || !OrderDependsOnHolders(graph_.node(sum).op(), terms.size())) continue;
      if (may_be_fused_.empty()) may_be_fused_ = MayBeFused(graph_, index_, onednn_);
      std::vector<int> others, entries;
      bool known = false;
      for (size_t i = 0; i < terms.size() && !known; ++i) {
        const TensorRef root = Root(terms[i]);
        const std::vector<int> readers = Readers(root, &entries);
        known = i < 2 && readers.size() == 1 && MadeForReaders(root.node);
        others.insert(others.end(), readers.begin(), readers.end());
      }
      if (known) continue;
      for (const int reader : EachOnce(std::move(others))) {
        if (reader != sum && MayWait(reader, sum)) pairs_.push_back({sum, reader});
      }
      for (const int entry : EachOnce(std::move(entries))) {
        if (MayBePutAside(entry, sum)) pairs_.push_back({sum, entry, true});
      }
      if (pairs_.size() > kMostPairs) throw TooMuch("more than 2 million readers of terms of sums");
    }
    std::optional<Loops> loops;
    for (const Pair& pair : pairs_) {
      if (!pair.leads_in || entrances_.count(pair.reader) > 0) continue;
      if (!loops) loops.emplace(graph_, index_);
      entrances_.emplace(pair.reader, LookInto(graph_, index_, *loops, pair.reader, &pace_));
    }
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorSizes& sizes_;
  const bool onednn_;
  const Deadline deadline_;
  Pace pace_;
  std::vector<bool> may_be_fused_;
  std::map<int, Entrance> entrances_;  // by the node that leads in
  std::vector<Pair> pairs_;
};

}  // namespace

std::vector<NodeWait> FindSumWaits(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
                                   bool onednn, const Deadline& deadline) {
  return Holders(graph, index, sizes, onednn, deadline).Find();
}

std::vector<bool> OnWayToSums(const tensorflow::GraphDef& graph, const GraphIndex& index) {
  std::vector<bool> on_way(index.size(), false);
  for (int sum = 0; sum < index.size(); ++sum) {
    if (!index[sum].live || !OrderDependsOnHolders(graph.node(sum).op(), index[sum].inputs.size())) continue;
    std::vector<TensorRef> pending = index[sum].inputs;
    while (!pending.empty()) {
      const TensorRef tensor = pending.back();
      pending.pop_back();
      if (on_way[tensor.node]) continue;
      on_way[tensor.node] = true;
      const tensorflow::NodeDef& node = graph.node(tensor.node);
      const std::vector<TensorRef>& inputs = index[tensor.node].inputs;
      const int shared = SharedInput(node, tensor.port);
      if (node.op() == "Merge" || node.op() == "RefMerge") {
        pending.insert(pending.end(), inputs.begin(), inputs.end());
      } else if (shared >= 0 && shared < static_cast<int>(inputs.size())) {
        pending.push_back(inputs[shared]);
      } else if (MaySliceRows(node) && !inputs.empty()) {
        pending.push_back(inputs[node.op() == "Split" ? 1 : 0]);
      }
    }
  }
  return on_way;
}

}  // namespace lms
