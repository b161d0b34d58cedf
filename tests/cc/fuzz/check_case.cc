#include "tests/cc/fuzz/check_case.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/options/options.h"
#include "cc/core/report/report_store.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/pass/optimizer.h"
#include "cc/tf/rewrite/fuse_elementwise.h"
#include "cc/tf/rewrite/split_swaps.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "cc/tf/stock/sum_order.h"
#include "cc/tf/verify/verify.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tensorflow/core/public/session.h"
#include "tests/cc/tf/fake_gpu.h"

namespace lms::fuzz {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Tensor;
using tensorflow::grappler::VirtualCluster;

constexpr char kCpuName[] = "/job:localhost/replica:0/task:0/device:CPU:0";
constexpr char kGpuName[] = "/job:localhost/replica:0/task:0/device:GPU:0";

// The devices that the case asks for.
class Devices {
 public:
  explicit Devices(const std::string& kind) {
    if (kind == "none") return;
    std::unordered_map<std::string, tensorflow::DeviceProperties> properties;
    tensorflow::DeviceProperties& cpu = properties[kCpuName];
    cpu.set_type("CPU");
    cpu.set_num_cores(2);
    cpu.set_frequency(2000);
    if (kind != "cpu") {
      tensorflow::DeviceProperties& gpu = properties[kGpuName];
      gpu.set_type("GPU");
      gpu.set_num_cores(80);
      gpu.set_frequency(1500);
      gpu.set_bandwidth(900000000);
      gpu.set_memory_size(int64_t{1} << 33);
      (*gpu.mutable_environment())["architecture"] = "7.0";
    }
    if (kind == "fake_gpu") {
      gpu_ = std::make_unique<FakeGpu>();
      set_.AddDevice(gpu_.get());
      cluster_ = std::make_unique<VirtualCluster>(&set_);
    } else {
      cluster_ = std::make_unique<VirtualCluster>(properties);
    }
  }
  tensorflow::grappler::Cluster* cluster() const { return cluster_.get(); }

 private:
  std::unique_ptr<FakeGpu> gpu_;
  tensorflow::DeviceSet set_;
  std::unique_ptr<VirtualCluster> cluster_;
};

absl::Status AsTensorFlowTakesIt(const GraphDef& graph) {
  tensorflow::Graph converted(tensorflow::OpRegistry::Global());
  tensorflow::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  return tensorflow::ConvertGraphDefToGraph(options, graph, &converted);
}

std::string Figures(const Report& report) {
  if (report.peak_before_bytes < 0 || report.peak_after_bytes < 0 || report.resident_bytes < 0) {
    return "a figure of the report is below zero";
  }
  if (!(report.step_time_us >= 0) || !(report.predicted_time_overhead >= -1e-6) || !(report.profiled_share >= 0) ||
      !(report.swap_hidden >= -1e-6) || !(report.swap_stall >= 0)) {
    return "a time of the report is no number, or below zero";
  }
  if (report.reason.empty()) return "the report gives no reason";
  // Where a device is too small, the lowest plan is taken, and the user told what it would have to have.
  const bool lowest = report.budget.rfind("auto", 0) == 0 && report.min_budget_bytes > report.budget_bytes;
  if (report.status == ReportStatus::kRewritten && report.peak_after_bytes > report.budget_bytes && !lowest) {
    return "rewritten, yet predicted to be over the budget";
  }
  return "";
}

// The nodes that the other graph has, in its order, and then all others.
GraphDef InOrderOf(const GraphDef& other, const GraphDef& graph) {
  std::unordered_map<std::string, int> places;
  for (const NodeDef& node : other.node()) places.emplace(node.name(), static_cast<int>(places.size()));
  std::vector<const NodeDef*> nodes;
  for (const NodeDef& node : graph.node()) nodes.push_back(&node);
  const auto place = [&](const NodeDef* node) {
    const auto found = places.find(node->name());
    return found == places.end() ? other.node_size() : found->second;
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](auto* a, auto* b) { return place(a) < place(b); });
  GraphDef ordered = graph;
  ordered.clear_node();
  for (const NodeDef* const node : nodes) *ordered.add_node() = *node;
  return ordered;
}

// The changed graph on its own, and beside the one that it was.
// `several`: devices that were planned, one after the other; the verifier looks at what was done for one.
std::string Sound(const FuzzCase& fuzz_case, const Report& report, bool several, const GraphDef& output) {
  GraphDef parted = output;
  PartElementwise(&parted);
  std::unordered_map<std::string, const NodeDef*> nodes;
  for (const NodeDef& node : parted.node()) {
    if (!nodes.emplace(node.name(), &node).second) return "two nodes are called " + node.name();
  }
  bool lists_are_gone = false;  // of a loop: what was planned and verified is another graph of the step
  for (const NodeDef& node : fuzz_case.item.graph.node()) {
    const auto found = nodes.find(node.name());
    if (found == nodes.end()) return "the node " + node.name() + " is gone";
    if (found->second->op() == node.op()) continue;
    const bool of_list = node.op().rfind("TensorList", 0) == 0 && found->second->op() == "NoOp";
    if (!of_list) return "the node " + node.name() + " has become another op";
    lists_are_gone = true;
  }
  const absl::Status before = AsTensorFlowTakesIt(fuzz_case.item.graph);
  const absl::Status after = AsTensorFlowTakesIt(output);
  if (before.ok() && !after.ok()) return "TensorFlow does not take the new graph: " + std::string(after.message());
  if (report.status != ReportStatus::kRewritten || several || lists_are_gone) return "";
  tensorflow::grappler::GrapplerItem original = fuzz_case.item;
  SumOrder sums;
  if (AddsInOrderOfArrival(original.graph) && !HoldSums(&original, &sums).ok()) return "sums cannot be held again";
  Options options;
  std::vector<std::string> problems;
  const OptionMap map = OptionsFromConfig(fuzz_case.config, &problems);
  if (!problems.empty() || !ParseOptions(map, &options, /*internal=*/true).empty()) return "bad options were used";
  Dimensions dimensions(original, options);
  TensorSizes sizes(&dimensions);
  GraphIndex index;
  absl::Status status = index.Build(original);
  if (status.ok()) status = sizes.Infer();
  if (status.ok()) status = sizes.InferLists(index);
  if (!status.ok()) return "a graph was rewritten that cannot be read again: " + std::string(status.message());
  tensorflow::grappler::GrapplerItem rewritten = original;
  rewritten.graph = InOrderOf(original.graph, parted);
  JoinSwaps(&rewritten.graph);
  MemoryProfile profile;
  status = VerifyRewrite(original, index, rewritten, sizes, fuzz_case.threads, SwapLink(), &profile, Deadline(),
                         report.device);
  return status.ok() ? "" : "the verifier declines it: " + std::string(status.message());
}

// What a step fetched, twice, and the variables afterwards; the error where it did not run.
class Trained {
 public:
  Trained(const FuzzCase& fuzz_case, GraphDef graph) {
    std::vector<std::string> init;
    std::vector<std::string> after;
    std::vector<std::pair<std::string, Tensor>> feeds;
    AddVariables(&graph, &init, &after);
    for (const auto& feed : fuzz_case.item.feed) feeds.emplace_back(feed.first, ValueOf(graph, feed.first));
    // In a function everything with an effect runs.
    std::vector<std::string> targets;
    for (const NodeDef& node : fuzz_case.item.graph.node()) {
      if (node.op() == "AssignSubVariableOp" || node.op() == "ResourceApplyGradientDescent" || node.op() == "NoOp") {
        targets.push_back(node.name());
      }
    }
    std::vector<std::string> fetches;
    for (const std::string& fetch : fuzz_case.item.fetch) {
      fetches.push_back(fetch.find(':') == std::string::npos ? fetch + ":0" : fetch);
    }
    tensorflow::SessionOptions options;
    options.config.set_intra_op_parallelism_threads(1);
    options.config.set_inter_op_parallelism_threads(1);
    auto* graph_options = options.config.mutable_graph_options();
    graph_options->mutable_rewrite_options()->set_disable_meta_optimizer(true);
    graph_options->mutable_optimizer_options()->set_opt_level(tensorflow::OptimizerOptions::L0);
    const std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
    absl::Status status = session->Create(std::move(graph));
    if (status.ok() && !init.empty()) status = session->Run({}, {}, init, nullptr);
    for (int step = 0; status.ok() && step < 2; ++step) {
      std::vector<Tensor> results;
      status = session->Run(feeds, fetches, targets, &results);
      Keep(results);
    }
    std::vector<Tensor> variables;
    if (status.ok() && !after.empty()) status = session->Run({}, after, {}, &variables);
    Keep(variables);
    if (!status.ok()) error = std::string(status.message());
    session->Close().IgnoreError();
  }

  std::string error;
  std::string bits;

 private:
  void Keep(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      bits += tensor.shape().DebugString() + std::string(tensor.tensor_data());
    }
  }

  static Tensor Filled(const tensorflow::TensorShapeProto& proto, int phase) {
    tensorflow::TensorShape shape;
    if (!tensorflow::TensorShape::BuildTensorShape(proto, &shape).ok()) return Tensor();
    Tensor tensor(tensorflow::DT_FLOAT, shape);
    auto values = tensor.flat<float>();
    for (int64_t i = 0; i < tensor.NumElements(); ++i) {
      values(i) = static_cast<float>((i * 7 + phase) % 31) / 310 - 0.05F;
    }
    return tensor;
  }

  static Tensor ValueOf(const GraphDef& graph, const std::string& feed) {
    for (const NodeDef& node : graph.node()) {
      if (node.name() == feed && node.attr().count("shape") != 0) return Filled(node.attr().at("shape").shape(), 3);
    }
    return Tensor();
  }

  static void AddVariables(GraphDef* graph, std::vector<std::string>* init, std::vector<std::string>* after) {
    const auto add = [graph](const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
      NodeDef* node = graph->add_node();
      node->set_name(name);
      node->set_op(op);
      for (const std::string& input : inputs) node->add_input(input);
      (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
      return node;
    };
    for (int i = 0, nodes = graph->node_size(); i < nodes; ++i) {
      if (graph->node(i).op() != "VarHandleOp") continue;
      const std::string name = graph->node(i).name();
      Filled(graph->node(i).attr().at("shape").shape(), i)
          .AsProtoTensorContent((*add("fuzz/value_" + name, "Const", {})->mutable_attr())["value"].mutable_tensor());
      add("fuzz/init_" + name, "AssignVariableOp", {name, "fuzz/value_" + name});
      add("fuzz/after_" + name, "ReadVariableOp", {name});
      init->push_back("fuzz/init_" + name);
      after->push_back("fuzz/after_" + name + ":0");
    }
  }
};

std::string SameBits(const FuzzCase& fuzz_case, const GraphDef& output, bool* ran) {
  const Trained stock(fuzz_case, fuzz_case.item.graph);
  if (!stock.error.empty()) return "the original does not run: " + stock.error;
  const Trained ours(fuzz_case, output);
  *ran = true;
  if (!ours.error.empty()) return "the new graph does not run: " + ours.error;
  if (ours.bits == stock.bits) return "";
  const Trained again(fuzz_case, fuzz_case.item.graph);
  return again.bits == stock.bits ? "other bits than the original's" : "";
}

}  // namespace

Checked CheckCase(const FuzzCase& fuzz_case, bool run) {
  Checked checked;
  const Devices devices(fuzz_case.cluster);
  ReportStore::Global().Clear();
  GraphDef output;
  absl::Status status;
  bool changed = false;
  try {
    tensorflow::ConfigProto config;
    config.set_inter_op_parallelism_threads(fuzz_case.threads);
    config.mutable_graph_options()->mutable_rewrite_options()->set_meta_optimizer_iterations(
        tensorflow::RewriterConfig::ONE);
    LmsOptimizer optimizer;
    status = optimizer.InitWithConfig(config, &fuzz_case.config);
    if (!status.ok()) {
      checked.problem = "Init returns an error: " + std::string(status.message());
      return checked;
    }
    status = optimizer.Optimize(devices.cluster(), fuzz_case.item, &output);
    changed = status.ok();
  } catch (const std::exception& e) {
    checked.problem = std::string("an exception escapes: ") + e.what();
    return checked;
  } catch (...) {
    checked.problem = "an exception escapes";
    return checked;
  }
  if (!changed && !absl::IsAborted(status)) {
    checked.problem = "Optimize returns an error: " + std::string(status.message());
    return checked;
  }
  if (!changed && output.ByteSizeLong() > 0) checked.problem = "nothing was changed, yet there is an output";
  const std::vector<Report> reports = ReportStore::Global().All();
  if (fuzz_case.config.parameter_map().count("time_ops") != 0) {
    checked.status = "timed";
    return checked;
  }
  // One for each device that is planned.
  std::set<std::string> planned;
  for (const Report& one : reports) planned.insert(one.device);
  if (reports.empty() || planned.size() != reports.size()) {
    checked.problem =
        "there are " + std::to_string(reports.size()) + " reports on " + std::to_string(planned.size()) + " devices";
    return checked;
  }
  const auto rewritten = [](const Report& one) { return one.status == ReportStatus::kRewritten; };
  const auto first = std::find_if(reports.begin(), reports.end(), rewritten);
  const Report& report = first == reports.end() ? reports[0] : *first;
  // A step that is over the budget of a further device may have been made to fail (strict).
  const auto in_vain = [](const Report& one) { return one.status == ReportStatus::kInfeasible; };
  const bool several = std::count_if(reports.begin(), reports.end(), rewritten) > 1 ||
                       std::any_of(reports.begin(), reports.end(), in_vain);
  checked.status = StatusName(report.status);
  checked.reason = report.reason;
  const bool strict = changed && std::any_of(reports.begin(), reports.end(), in_vain);
  if (changed != (report.status == ReportStatus::kRewritten || strict)) {
    checked.problem = "the report says " + checked.status + ", the graph something else";
  }
  for (const Report& one : reports) {
    if (checked.problem.empty()) checked.problem = Figures(one);
    if (checked.problem.empty() && fuzz_case.valid && one.status == ReportStatus::kFailed) {
      checked.problem = "a valid graph is declined: " + one.reason;
    }
  }
  if (checked.problem.empty() && changed) checked.problem = Sound(fuzz_case, report, several, output);
  if (checked.problem.empty() && run && fuzz_case.runnable && !several && report.status == ReportStatus::kRewritten) {
    checked.problem = SameBits(fuzz_case, output, &checked.ran);
  }
  return checked;
}

}  // namespace lms::fuzz
