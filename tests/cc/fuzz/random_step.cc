#include "tests/cc/fuzz/random_step.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/public/version.h"
#include "tests/cc/fuzz/step_builder.h"
#include "tests/cc/fuzz/step_ops.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {
namespace {

using lms::testing::Bool;
using lms::testing::Dims;
using lms::testing::kOtherCpu;
using lms::testing::Shape;
using lms::testing::Type;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;

constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";

// From what comes in to what is fetched.
class Step {
 public:
  explicit Step(Random* random) : step_(random) {}

  FuzzCase Make() {
    case_.valid = true;
    Entrances();
    Forward();
    Loss();
    Backward();
    Extras();
    Places();
    Results();
    Claims();
    case_.item = std::move(step_.graph.item());
    case_.item.graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
    case_.runnable = step_.runnable;
    case_.threads = 1 + step_.random.Below(2);
    case_.why = "a random step";
    return std::move(case_);
  }

 private:
  void Entrances() {
    const int feeds = 1 + step_.random.Below(2);
    for (int i = 0; i < feeds; ++i) {
      const std::string name = step_.New("feed");
      step_.graph.Feed(name, {step_.side, step_.side});
      feeds_.push_back(name);
      step_.Made(name);
    }
    const int variables = 1 + step_.random.Below(4);
    for (int i = 0; i < variables; ++i) {
      const std::string n = std::to_string(i);
      step_.graph.Variable("var_" + n, {step_.side, step_.side});
      step_.graph.Read("read_" + n, "var_" + n);
      if (step_.random.OneIn(3)) step_.graph.Float("cast_" + n, "Identity", {"read_" + n});
    }
    step_.variables = variables;
    step_.graph.ShapeConstant("axes", {0, 1});
    step_.graph.ShapeConstant("tile_shape", {static_cast<int>(step_.side), static_cast<int>(step_.side)});
  }

  void Forward() {
    const int ops = 2 + step_.random.Below(step_.random.OneIn(10) ? 60 : 16);
    for (int i = 0; i < ops; ++i) AddForwardOp(&step_);
  }

  void Loss() {
    forward_ = step_.tiles;
    step_.graph.Float("loss", "Sum", {step_.tiles.back(), "axes"}, {Type("Tidx", DT_INT32)});
  }

  // No true gradients, but the reads that they make: each stage takes what one of the forward pass has made.
  void Backward() {
    std::string grad = step_.Op("Sigmoid", {forward_.back()});
    for (int i = static_cast<int>(forward_.size()) - 1; i >= 0; --i) {
      if (step_.random.OneIn(6)) continue;
      const std::string& kept = forward_[i];
      switch (step_.random.Below(5)) {
        case 0:
          grad = step_.Op("TanhGrad", {kept, grad});
          break;
        case 1:
          grad = step_.Op("ReluGrad", {grad, kept});
          break;
        case 2:
          grad = step_.Op("Mul", {grad, kept});
          break;
        case 3:
          grad = step_.Op("SigmoidGrad", {kept, grad});
          break;
        default:
          grad = step_.Op("MatMul", {grad, step_.Weight()}, {Bool("transpose_b", true)});
      }
      if (step_.random.OneIn(2)) Update(kept, grad);
    }
    Update(feeds_[0], grad);
  }

  void Update(const std::string& kept, const std::string& grad) {
    const std::string product = step_.New("weight_grad");
    step_.graph.Float(product, "MatMul", {kept, grad}, {Bool("transpose_a", true)});
    const int n = step_.random.Below(step_.variables);
    if (updated_.size() <= static_cast<size_t>(n)) updated_.resize(n + 1);
    // One update per variable: which of two comes first would be nobody's.
    if (updated_[n]) {
      step_.graph.Float(step_.New("unused"), "Neg", {product});
      return;
    }
    updated_[n] = true;
    const std::string variable = "var_" + std::to_string(n);
    const std::string name = step_.New("update");
    // All that reads the variable has read it: what else is read would depend on the moment.
    if (step_.random.OneIn(3)) {
      step_.graph.Constant(name + "_rate", {}, DT_FLOAT);
      step_.graph.Float(name, "ResourceApplyGradientDescent",
                        {variable, name + "_rate", product, "^read_" + std::to_string(n)});
    } else {
      step_.graph.Update(name, variable, product, {"^read_" + std::to_string(n)});
    }
    updates_.push_back(name);
  }

  void Extras() {
    // Control edges from earlier to later nodes of the backward pass, which has no loops.
    const auto& nodes = step_.graph.item().graph.node();
    for (int k = step_.random.Below(4); k > 0; --k) {
      const std::string from = feeds_[0];
      auto* node = step_.graph.item().graph.mutable_node(step_.random.Below(nodes.size()));
      const std::string name = node->name();
      if (node->op() == "NextIteration" || node->op() == "Const" || node->op() == "Placeholder" ||
          node->op() == "VarHandleOp") {  // which the variables' initialisation needs, too
        continue;
      }
      bool in_loop = name.rfind("loop", 0) == 0 || name.rfind("inner", 0) == 0;
      bool has = false;
      for (const std::string& input : node->input()) has |= input == "^" + from;
      if (!in_loop && !has) node->add_input("^" + from);
    }
    if (step_.random.OneIn(4)) {
      std::vector<std::string> waits;
      for (const std::string& update : updates_) waits.push_back("^" + update);
      step_.graph.Add("group", "NoOp", waits);
    }
  }

  void Places() {
    if (!step_.random.OneIn(8)) return;
    step_.runnable = false;
    const std::string device = step_.random.OneIn(2) ? kOtherCpu : kGpu;
    const bool all = step_.random.OneIn(2);
    for (auto& node : *step_.graph.item().graph.mutable_node()) {
      if (all || step_.random.OneIn(3)) node.set_device(device);
    }
    case_.cluster = device == kGpu ? (step_.random.OneIn(2) ? "gpu" : "fake_gpu") : "cpu";
  }

  void Results() {
    step_.graph.Fetch("loss");
    for (int k = step_.random.Below(3); k > 0; --k) {
      const std::string tile = step_.Pick(1000);
      // Fetched twice, or from within a branch, it would be another thing to fetch.
      const bool plain = tile.find("if_") == std::string::npos && tile.find("loop") == std::string::npos;
      const auto& fetch = step_.graph.item().fetch;
      const bool fed = std::find(feeds_.begin(), feeds_.end(), tile) != feeds_.end();
      if (plain && !fed && std::find(fetch.begin(), fetch.end(), tile) == fetch.end()) step_.graph.Fetch(tile);
    }
    if (step_.random.OneIn(3)) step_.graph.item().keep_ops.push_back(StepBuilder::NodeOf(step_.Pick(1000)));
    step_.graph.item().optimization_options().allow_pruning_stateful_and_dataset_ops = step_.random.OneIn(8);
    if (step_.graph.item().optimization_options().allow_pruning_stateful_and_dataset_ops) step_.runnable = false;
  }

  // What is said of the arguments' shapes.
  void Claims() {
    if (!step_.random.OneIn(5)) return;
    step_.runnable = false;
    static const auto* const claims = new std::vector<Dims>{
        {-1, -1}, {-1}, {0, 0}, {int64_t{1} << 20, int64_t{1} << 20}, {int64_t{1} << 31, int64_t{1} << 31}};
    const Dims& dims = OneOf(&step_.random, *claims);
    for (auto& node : *step_.graph.item().graph.mutable_node()) {
      if (node.op() != "Placeholder" && node.op() != "VarHandleOp") continue;
      if (node.op() == "VarHandleOp" && step_.random.OneIn(2)) continue;
      (*node.mutable_attr())["shape"] = Shape("shape", dims).second;
    }
    // What is known of the sizes contradicts other claims than that they are not known.
    case_.valid = dims == Dims{-1, -1};
  }

  StepBuilder step_;
  FuzzCase case_;
  std::vector<bool> updated_;
  std::vector<std::string> feeds_;
  std::vector<std::string> forward_;
  std::vector<std::string> updates_;
};

}  // namespace

FuzzCase RandomStep(Random* random) {
  FuzzCase fuzz_case = Step(random).Make();
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

}  // namespace lms::fuzz
