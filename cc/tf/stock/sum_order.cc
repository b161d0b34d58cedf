#include "cc/tf/stock/sum_order.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/stock/executor_model.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

constexpr int kOrderRuns = 16;

struct Sum {
  std::vector<int> adds;   // AssignAdd nodes
  bool from_zero = false;  // 0 + a + b == 0 + b + a: the first two may run in any order
};

// A constant of one value, zero.
bool IsZero(const NodeDef& node) {
  if (node.op() == "ZerosLike") return true;
  if (node.op() != "Const" || node.attr().count("value") == 0) return false;
  const tensorflow::TensorProto& value = node.attr().at("value").tensor();
  const auto all_zero = [](const auto& list) {
    return std::all_of(list.begin(), list.end(), [](auto element) { return element == 0; });
  };
  return value.tensor_content().empty() && all_zero(value.float_val()) && all_zero(value.double_val()) &&
         all_zero(value.half_val());
}

bool IsRounded(const NodeDef& add) {
  const auto type = add.attr().find("T");
  return type == add.attr().end() || !tensorflow::DataTypeIsInteger(type->second.type());
}

class SumHolder {
 public:
  SumHolder(tensorflow::GraphDef* graph, const GraphIndex& index, const Deadline& deadline, SumOrder* result)
      : graph_(*graph), index_(index), result_(*result), deadline_(deadline), pace_(deadline) {}

  absl::Status Run() {
    FindSums();
    for (const Sum& sum : sums_) result_.behind += BehindBranch(sum) ? 1 : 0;
    CountAhead();
    if (sums_.empty() || result_.behind > 0 || result_.ahead > 0) return absl::OkStatus();
    const ExecutorModel model(graph_, index_, tensorflow::IsMKLEnabled(), EdgeDraws::kAny);
    std::vector<std::vector<Sum>> runs;
    for (uint32_t seed = 0; seed < kOrderRuns; ++seed) {
      deadline_.Check();
      const std::vector<int> run = model.Run(seed);
      if (run.size() != LiveNodes()) return absl::InvalidArgumentError("the graph has a cycle outside its loops");
      runs.push_back(Ordered(run));
    }
    const std::vector<Sum>& chosen = runs[MostUsual(runs)];
    for (size_t s = 0; s < sums_.size(); ++s) {
      if (2 * Votes(runs, chosen, s) > kOrderRuns) {
        Chain(chosen[s]);
        ++result_.held;
      } else {
        ++result_.free;
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t LiveNodes() const {
    size_t live = 0;
    for (int i = 0; i < index_.size(); ++i) live += index_[i].live ? 1 : 0;
    return live;
  }

  // The temporary variable that the node changes or hands on by reference, or -1.
  int Variable(int node) {
    for (int steps = 0; steps < index_.size(); ++steps) {
      pace_.Step();
      const std::string& op = graph_.node(node).op();
      if (op == "TemporaryVariable") return node;
      const bool passes = op == "Assign" || op == "AssignAdd" || op == "AssignSub" || op == "RefIdentity";
      if (!passes || index_[node].inputs.empty()) return -1;
      node = index_[node].inputs[0].node;
    }
    return -1;
  }

  bool StartsFromZero(int variable) const {
    const std::vector<int>& readers = index_[variable].readers;
    return std::all_of(readers.begin(), readers.end(), [this](int reader) {
      const std::vector<TensorRef>& inputs = index_[reader].inputs;
      return graph_.node(reader).op() == "Assign" && inputs.size() == 2 && IsZero(graph_.node(inputs[1].node));
    });
  }

  void FindSums() {
    std::map<int, Sum> by_variable;
    for (int i = 0; i < index_.size(); ++i) {
      const std::string& op = graph_.node(i).op();
      if (!index_[i].live || (op != "AssignAdd" && op != "AssignSub") || !IsRounded(graph_.node(i))) continue;
      const int variable = Variable(i);
      if (variable >= 0) by_variable[variable].adds.push_back(i);
    }
    for (auto& [variable, sum] : by_variable) {
      sum.from_zero = StartsFromZero(variable);
      if (sum.adds.size() < (sum.from_zero ? 3 : 2)) continue;
      // In one loop body or branch they run together, and may wait for each other.
      const int region = index_[sum.adds[0]].region;
      const bool together = std::all_of(sum.adds.begin(), sum.adds.end(),
                                        [&](int add) { return index_[add].region == region && region >= 0; });
      if (!together) {
        ++result_.hidden;
      } else {
        sums_.push_back(std::move(sum));
      }
    }
  }

  // Does something that a term depends on run in a branch that the sum is not in? When it runs then depends on which
  // branch is taken.
  bool BehindBranch(const Sum& sum) {
    const int region = index_[sum.adds[0]].region;
    std::vector<bool> seen(index_.size(), false);
    std::vector<int> sources = sum.adds;
    for (size_t next = 0; next < sources.size(); ++next) {
      const NodeIndex& node = index_[sources[next]];
      pace_.Step(1 + static_cast<int64_t>(node.inputs.size() + node.controls.size()));
      if (node.conditional && node.region != region && !index_.Implies(region, node.region)) return true;
      const auto add = [&](int source) {
        if (!seen[source]) sources.push_back(source);
        seen[source] = true;
      };
      for (const TensorRef& input : node.inputs) add(input.node);
      for (const int control : node.controls) add(control);
    }
    return false;
  }

  // Sums whose terms of several iterations may be there at once.
  void CountAhead() {
    const auto in_loop = [this](const Sum& sum) { return index_[sum.adds[0]].frame > 0; };
    if (std::none_of(sums_.begin(), sums_.end(), in_loop)) return;
    const Loops loops(graph_, index_);
    for (const Sum& sum : sums_) {
      const auto straggles = [&loops](int add) { return loops.Straggles(add); };
      if (std::any_of(sum.adds.begin(), sum.adds.end(), straggles)) ++result_.ahead;
    }
  }

  // The sums with their terms as they came in that run. The first two count as one where they may change places.
  std::vector<Sum> Ordered(const std::vector<int>& run) const {
    std::vector<int> place(index_.size(), index_.size());
    for (size_t i = 0; i < run.size(); ++i) place[run[i]] = static_cast<int>(i);
    std::vector<Sum> sums = sums_;
    for (Sum& sum : sums) {
      std::sort(sum.adds.begin(), sum.adds.end(), [&place](int a, int b) { return place[a] < place[b]; });
      if (sum.from_zero) std::sort(sum.adds.begin(), sum.adds.begin() + 2);
    }
    return sums;
  }

  static int Votes(const std::vector<std::vector<Sum>>& runs, const std::vector<Sum>& run, size_t sum) {
    return static_cast<int>(std::count_if(
        runs.begin(), runs.end(), [&](const std::vector<Sum>& other) { return other[sum].adds == run[sum].adds; }));
  }

  // The run whose orders most of the others share.
  static size_t MostUsual(const std::vector<std::vector<Sum>>& runs) {
    size_t best = 0;
    int best_votes = -1;
    for (size_t r = 0; r < runs.size(); ++r) {
      int votes = 0;
      for (size_t s = 0; s < runs[r].size(); ++s) votes += Votes(runs, runs[r], s);
      if (votes > best_votes) {
        best_votes = votes;
        best = r;
      }
    }
    return best;
  }

  void Chain(const Sum& sum) {
    for (size_t i = sum.from_zero ? 2 : 1; i < sum.adds.size(); ++i) {
      Follow(sum.adds[i - 1], sum.adds[i]);
      if (i == 2 && sum.from_zero) Follow(sum.adds[0], sum.adds[2]);
    }
  }

  void Follow(int first, int second) {
    const std::vector<int>& controls = index_[second].controls;
    if (std::find(controls.begin(), controls.end(), first) != controls.end()) return;
    graph_.mutable_node(second)->add_input("^" + graph_.node(first).name());
  }

  tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  SumOrder& result_;
  const Deadline deadline_;
  Pace pace_;
  std::vector<Sum> sums_;
};

}  // namespace

bool AddsInOrderOfArrival(const tensorflow::GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const NodeDef& node) { return node.op() == "TemporaryVariable"; });
}

absl::Status HoldSums(tensorflow::grappler::GrapplerItem* item, SumOrder* result, const Deadline& deadline) {
  GraphIndex index;
  absl::Status status = index.Build(*item, deadline);
  if (status.ok()) status = SumHolder(&item->graph, index, deadline, result).Run();
  return status;
}

}  // namespace lms
