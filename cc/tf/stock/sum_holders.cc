#include "cc/tf/stock/sum_holders.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/sizes/row_slices.h"
#include "cc/tf/stock/executor_model.h"
#include "cc/tf/stock/layout_fusions.h"

namespace lms {
namespace {

constexpr uint32_t kHolderRuns = 16;
// Of sums with other readers of their terms. Each may become an edge.
constexpr size_t kMostPairs = 2000000;

class Holders {
 public:
  Holders(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes, bool onednn,
          const Deadline& deadline)
      : graph_(graph), index_(index), sizes_(sizes), onednn_(onednn), deadline_(deadline), pace_(deadline) {}

  std::vector<SumWait> Find() {
    FindPairs();
    if (pairs_.empty()) return {};
    const ExecutorModel model(graph_, index_, onednn_, EdgeDraws::kAny);
    std::vector<std::vector<bool>> runs;  // does the reader come before the sum?
    std::vector<int> place(index_.size(), -1);
    for (uint32_t seed = 0; seed < kHolderRuns; ++seed) {
      deadline_.Check();
      const std::vector<int> run = model.Run(seed);
      std::fill(place.begin(), place.end(), -1);
      for (size_t i = 0; i < run.size(); ++i) place[run[i]] = static_cast<int>(i);
      std::vector<bool> before;
      for (const auto& [sum, reader] : pairs_) {
        if (place[sum] < 0 || place[reader] < 0) return {};  // some never ran: nothing is known
        before.push_back(place[reader] < place[sum]);
      }
      runs.push_back(std::move(before));
    }
    const std::vector<uint32_t> votes = Votes(runs);
    const std::vector<bool>& chosen = MostUsual(runs, votes);
    std::vector<SumWait> waits;
    for (size_t p = 0; p < pairs_.size(); ++p) {
      const auto& [sum, reader] = pairs_[p];
      if (2 * (chosen[p] ? votes[p] : kHolderRuns - votes[p]) <= kHolderRuns) continue;
      waits.push_back(chosen[p] ? SumWait{sum, reader} : SumWait{reader, sum});
    }
    return waits;
  }

 private:
  // For each pair, the runs in which the reader comes before the sum.
  static std::vector<uint32_t> Votes(const std::vector<std::vector<bool>>& runs) {
    std::vector<uint32_t> votes(runs[0].size(), 0);
    for (const std::vector<bool>& run : runs) {
      for (size_t p = 0; p < run.size(); ++p) votes[p] += run[p] ? 1 : 0;
    }
    return votes;
  }

  // The run that is with the majority for the most pairs.
  static const std::vector<bool>& MostUsual(const std::vector<std::vector<bool>>& runs,
                                            const std::vector<uint32_t>& votes) {
    const auto usual = [&votes](const std::vector<bool>& run) {
      size_t count = 0;
      for (size_t p = 0; p < run.size(); ++p)
        count += 2 * (run[p] ? votes[p] : kHolderRuns - votes[p]) > kHolderRuns ? 1 : 0;
      return count;
    };
    return *std::max_element(runs.begin(), runs.end(),
                             [&usual](const auto& a, const auto& b) { return usual(a) < usual(b); });
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
  std::vector<int> Readers(const TensorRef& root) {
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

  void FindPairs() {
    for (int sum = 0; sum < index_.size(); ++sum) {
      const std::vector<TensorRef>& terms = index_[sum].inputs;
      if (!index_[sum].live || !OrderDependsOnHolders(graph_.node(sum).op(), terms.size())) continue;
      if (may_be_fused_.empty()) may_be_fused_ = MayBeFused(graph_, index_, onednn_);
      std::vector<int> others;
      bool known = false;
      for (size_t i = 0; i < terms.size() && !known; ++i) {
        const TensorRef root = Root(terms[i]);
        const std::vector<int> readers = Readers(root);
        known = i < 2 && readers.size() == 1 && MadeForReaders(root.node);
        others.insert(others.end(), readers.begin(), readers.end());
      }
      if (known) continue;
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
      for (const int reader : others) {
        if (reader != sum && MayWait(reader, sum)) pairs_.emplace_back(sum, reader);
      }
      if (pairs_.size() > kMostPairs) throw TooMuch("more than 2 million readers of terms of sums");
    }
  }

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorSizes& sizes_;
  const bool onednn_;
  const Deadline deadline_;
  Pace pace_;
  std::vector<bool> may_be_fused_;
  std::vector<std::pair<int, int>> pairs_;  // sum, another reader of one of its terms
};

}  // namespace

std::vector<SumWait> FindSumWaits(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
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
