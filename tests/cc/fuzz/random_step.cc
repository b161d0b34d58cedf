#include "tests/cc/fuzz/random_step.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/public/version.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {
namespace {

using lms::testing::Bool;
using lms::testing::Dims;
using lms::testing::Float32;
using lms::testing::GraphBuilder;
using lms::testing::Int;
using lms::testing::kOtherCpu;
using lms::testing::Shape;
using lms::testing::Text;
using lms::testing::Type;
using lms::testing::Types;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::FunctionDefHelper;

constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";

template <typename T>
const T& OneOf(Random* random, const std::vector<T>& values) {
  return values[random->Below(static_cast<int>(values.size()))];
}

FunctionDefHelper::Node FunctionNode(
    const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
    const std::vector<std::pair<std::string, FunctionDefHelper::AttrValueWrapper>>& attrs) {
  FunctionDefHelper::Node node;
  node.ret = {name};
  node.op = op;
  node.arg = inputs;
  node.attr = attrs;
  return node;
}

// (x) -> Tanh(x x), x
tensorflow::FunctionDef Squared() {
  return FunctionDefHelper::Create("squared", {"x: float"}, {"y: float", "x_again: float"}, {},
                                   {FunctionNode("product", "MatMul", {"x", "x"}, {{"T", DT_FLOAT}}),
                                    FunctionNode("tanh", "Tanh", {"product:product:0"}, {{"T", DT_FLOAT}})},
                                   {{"y", "tanh:y:0"}, {"x_again", "x"}});
}

// The same by way of a call.
tensorflow::FunctionDef Around(const std::string& name, const std::string& inner) {
  tensorflow::NameAttrList function;
  function.set_name(inner);
  return FunctionDefHelper::Create(name, {"x: float"}, {"y: float", "x_again: float"}, {},
                                   {FunctionNode("call", "PartitionedCall", {"x"},
                                                 {{"Tin", tensorflow::DataTypeSlice{DT_FLOAT}},
                                                  {"Tout", tensorflow::DataTypeSlice{DT_FLOAT, DT_FLOAT}},
                                                  {"f", function}})},
                                   {{"y", "call:output:0"}, {"x_again", "call:output:1"}});
}

// All large tensors are squares of one size, so that any op takes any of them.
class Step {
 public:
  explicit Step(Random* random) : random_(*random), side_(OneOf(random, std::vector<int64_t>{0, 1, 64, 128, 192})) {
    // Small functions are skipped at once where the budget is relative: most are of some size.
    if (side_ < 64 && !random_.OneIn(6)) side_ = 192;
  }

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
    case_.item = std::move(b_.item());
    case_.item.graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
    case_.runnable = runnable_;
    case_.threads = 1 + random_.Below(2);
    case_.why = "a random step";
    return std::move(case_);
  }

 private:
  std::string New(const std::string& op) { return op + "_" + std::to_string(count_++); }

  std::string Pick(int back = 6) {
    const int size = static_cast<int>(tiles_.size());
    return tiles_[size - 1 - random_.Below(std::min(size, back))];
  }

  static std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

  std::string Made(const std::string& name) {
    tiles_.push_back(name);
    return name;
  }

  std::string Op(const std::string& op, const std::vector<std::string>& inputs,
                 std::vector<lms::testing::Attr> attrs = {}) {
    const std::string name = New(op);
    b_.Float(name, op, inputs, std::move(attrs));
    return Made(name);
  }

  void Entrances() {
    const int feeds = 1 + random_.Below(2);
    for (int i = 0; i < feeds; ++i) {
      const std::string name = New("feed");
      b_.Feed(name, {side_, side_});
      feeds_.push_back(name);
      Made(name);
    }
    const int variables = 1 + random_.Below(4);
    for (int i = 0; i < variables; ++i) {
      const std::string n = std::to_string(i);
      b_.Variable("var_" + n, {side_, side_});
      b_.Read("read_" + n, "var_" + n);
      if (random_.OneIn(3)) b_.Float("cast_" + n, "Identity", {"read_" + n});
    }
    variables_ = variables;
    b_.ShapeConstant("axes", {0, 1});
    b_.ShapeConstant("tile_shape", {static_cast<int>(side_), static_cast<int>(side_)});
  }

  std::string Weight() {
    const std::string n = std::to_string(random_.Below(variables_));
    return lms::testing::FindNode(b_.item().graph, "cast_" + n) != nullptr && random_.OneIn(2) ? "cast_" + n
                                                                                               : "read_" + n;
  }

  void Forward() {
    const int ops = 2 + random_.Below(random_.OneIn(10) ? 60 : 16);
    for (int i = 0; i < ops; ++i) ForwardOp();
  }

  void ForwardOp() {
    switch (random_.Below(19)) {
      case 0:
      case 1:
      case 2:
        Op("MatMul", {Pick(2), Weight()}, {Bool("transpose_a", random_.OneIn(4))});
        break;
      case 3:
      case 4:
        Op(OneOf(&random_, std::vector<std::string>{"Tanh", "Relu", "Sigmoid", "Exp", "Erf", "Softmax", "Neg"}),
           {Pick(2)});
        break;
      case 5:
        Op(OneOf(&random_, std::vector<std::string>{"AddV2", "Mul", "Sub", "Maximum"}), {Pick(), Pick()});
        break;
      case 6: {
        std::vector<std::string> inputs;
        const int n = 2 + random_.Below(4);
        for (int k = 0; k < n; ++k) inputs.push_back(Pick());
        Op("AddN", inputs, {Int("N", n)});
        // Which term is in front depends on who holds them, which lms reads off a function's graph; a session numbers
        // its nodes in another way.
        if (n > 2) runnable_ = false;
        break;
      }
      case 7:
        Op(OneOf(&random_, std::vector<std::string>{"Identity", "StopGradient", "PreventGradient"}), {Pick(2)});
        break;
      case 8:
        Op("Reshape", {Pick(2), "tile_shape"}, {Type("Tshape", DT_INT32)});
        break;
      case 9:
        Random_();
        break;
      case 10:
        ConcatAndSlice();
        break;
      case 11:
        TwoOutputs();
        break;
      case 12:
        if (random_.OneIn(3)) Loop();
        break;
      case 13:
        if (random_.OneIn(2)) Branch();
        break;
      case 14:
        if (random_.OneIn(2)) Call();
        break;
      case 15:
        if (random_.OneIn(2)) SumInOrderOfArrival();
        break;
      case 16:
        Half();
        break;
      case 17:
        if (random_.OneIn(3)) List();
        break;
      default:
        if (random_.OneIn(3)) Convolution();
    }
  }

  void Random_() {
    const std::string name = New("random");
    b_.Add(name, "RandomUniform", {"tile_shape"},
           {Type("T", DT_INT32), Float32("dtype"), Int("seed", 1 + random_.Below(9)), Int("seed2", 7)});
    Op("Mul", {Pick(), name});
  }

  void ConcatAndSlice() {
    const std::string axis = New("axis");
    Scalar(axis, 0);
    const std::string concat = New("concat");
    b_.Float(concat, "ConcatV2", {Pick(), Pick(), axis}, {Int("N", 2), Type("Tidx", DT_INT32)});
    const std::string split = New("split");
    b_.Float(split, "Split", {axis, concat}, {Int("num_split", 2)});
    Made(split);
    Made(split + ":1");
  }

  void TwoOutputs() {
    const std::string name = New("identity_n");
    b_.Add(name, "IdentityN", {Pick(), Pick()}, {Types("T", {DT_FLOAT, DT_FLOAT})});
    Made(name);
    Made(name + ":1");
  }

  void Half() {
    const std::string down = New("half");
    b_.Add(down, "Cast", {Pick()}, {Type("SrcT", DT_FLOAT), Type("DstT", tensorflow::DT_HALF)});
    const std::string up = New("up");
    b_.Add(up, "Cast", {down}, {Type("SrcT", tensorflow::DT_HALF), Type("DstT", DT_FLOAT)});
    Made(up);
  }

  void Convolution() {
    const std::string shape = New("image_shape");
    b_.ShapeConstant(shape, {1, static_cast<int>(side_), static_cast<int>(side_), 1});
    const std::string image = New("image");
    b_.Float(image, "Reshape", {Pick(2), shape}, {Type("Tshape", DT_INT32)});
    const std::string filter = New("filter");
    b_.Constant(filter, {3, 3, 1, 1});
    lms::testing::Attr strides{"strides", {}};
    for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
    const std::string conv = New("conv");
    b_.Float(conv, "Conv2D", {image, filter}, {strides, Text("padding", "SAME")});
    Op("Reshape", {conv, "tile_shape"}, {Type("Tshape", DT_INT32)});
    if (side_ == 0) runnable_ = false;  // an empty image has no convolution
  }

  void Scalar(const std::string& name, int number, tensorflow::DataType type = DT_INT32) {
    lms::testing::Attr value{"value", {}};
    value.second.mutable_tensor()->set_dtype(type);
    value.second.mutable_tensor()->mutable_tensor_shape();
    if (type == DT_INT32) value.second.mutable_tensor()->add_int_val(number);
    if (type == tensorflow::DT_BOOL) value.second.mutable_tensor()->add_bool_val(number != 0);
    b_.Add(name, "Const", {}, {Type("dtype", type), value});
  }

  void Enter(const std::string& frame, const std::string& name, const std::string& value, tensorflow::DataType type,
             bool constant) {
    b_.Add(name, "Enter", {value},
           {Type("T", type), Text("frame_name", frame), Bool("is_constant", constant),
            Int("parallel_iterations", random_.OneIn(2) ? 10 : 1)});
  }

  // What goes from one iteration to the next: the value, its place in the body, its result.
  void Carry(const std::string& frame, const std::string& name, const std::string& value, const std::string& next,
             tensorflow::DataType type, const std::vector<std::string>& controls = {}) {
    Enter(frame, name + "_enter", value, type, false);
    b_.Add(name + "_merge", "Merge", {name + "_enter", name + "_next"}, {Type("T", type), Int("N", 2)});
    b_.Add(name + "_switch", "Switch", {name + "_merge", frame + "_cond"}, {Type("T", type)});
    std::vector<std::string> inputs{next};
    inputs.insert(inputs.end(), controls.begin(), controls.end());
    b_.Add(name + "_next", "NextIteration", inputs, {Type("T", type)});
    b_.Add(name + "_exit", "Exit", {name + "_switch"}, {Type("T", type)});
  }

  // Without a body: a counter, its bound and the predicate.
  std::string Counter() {
    const std::string frame = New("loop");
    const std::string i = frame + "_i";
    Scalar(frame + "_zero", 0);
    Scalar(frame + "_one", 1);
    Scalar(frame + "_rounds", random_.Below(5));
    Enter(frame, frame + "_one_in", frame + "_one", DT_INT32, true);
    Enter(frame, frame + "_rounds_in", frame + "_rounds", DT_INT32, true);
    Carry(frame, i, frame + "_zero", i + "_add", DT_INT32);
    b_.Add(i + "_less", "Less", {i + "_merge", frame + "_rounds_in"}, {Type("T", DT_INT32)});
    b_.Add(frame + "_cond", "LoopCond", {i + "_less"});
    b_.Add(i + "_add", "AddV2", {i + "_switch:1", frame + "_one_in"}, {Type("T", DT_INT32)});
    return frame;
  }

  // One op after the other on the tile that is carried.
  void Loop() {
    const std::string frame = Counter();
    const std::string y = frame + "_y";
    const bool weight = random_.OneIn(2);
    if (weight) Enter(frame, frame + "_weight", Weight(), DT_FLOAT, true);
    std::vector<std::string> body{y + "_switch:1"};
    const int ops = 1 + random_.Below(5);
    for (int k = 0; k < ops; ++k) {
      const std::string name = frame + "_op_" + std::to_string(k);
      const std::string& a = body[random_.Below(static_cast<int>(body.size()))];
      switch (random_.Below(4)) {
        case 0:
          b_.Float(name, "Tanh", {body.back()});
          break;
        case 1:
          b_.Float(name, "AddV2", {body.back(), a});
          break;
        case 2:
          b_.Float(name, "MatMul", {body.back(), weight ? frame + "_weight" : a});
          break;
        default:
          b_.Float(name, "Mul", {a, body.back()});
      }
      body.push_back(name);
    }
    const std::string result = body.back();
    Carry(frame, y, Pick(), result, DT_FLOAT);
    Made(y + "_exit");
    // Another loop's counter on the way in: a loop within a loop.
    if (random_.OneIn(3)) Nested(result, y);
  }

  // Rewires the loop's carried value through a loop of its own.
  void Nested(const std::string& value, const std::string& y) {
    const std::string inner = New("inner");
    const std::string i = inner + "_i";
    // Constants within the outer loop hang on its iteration.
    const std::string trigger = "^" + NodeOf(value);
    for (const auto& [name, number] : {std::pair<const char*, int>{"_zero", 0}, {"_one", 1}, {"_rounds", 2}}) {
      Scalar(inner + name, number);
      b_.item().graph.mutable_node(b_.item().graph.node_size() - 1)->add_input(trigger);
    }
    Enter(inner, inner + "_one_in", inner + "_one", DT_INT32, true);
    Enter(inner, inner + "_rounds_in", inner + "_rounds", DT_INT32, true);
    Carry(inner, i, inner + "_zero", i + "_add", DT_INT32);
    b_.Add(i + "_less", "Less", {i + "_merge", inner + "_rounds_in"}, {Type("T", DT_INT32)});
    b_.Add(inner + "_cond", "LoopCond", {i + "_less"});
    b_.Add(i + "_add", "AddV2", {i + "_switch:1", inner + "_one_in"}, {Type("T", DT_INT32)});
    b_.Float(inner + "_body", "Sigmoid", {inner + "_y_switch:1"});
    Carry(inner, inner + "_y", value, inner + "_body", DT_FLOAT);
    for (auto& node : *b_.item().graph.mutable_node()) {
      if (node.name() == y + "_next") node.set_input(0, inner + "_y_exit");
    }
  }

  // A branch of ops, or nothing, by a predicate.
  void Branch() {
    const std::string name = New("if");
    const std::string predicate = name + "_predicate";
    if (random_.OneIn(2)) {
      Scalar(predicate, random_.Below(2), tensorflow::DT_BOOL);
    } else {
      Scalar(name + "_half", 0);
      b_.Add(name + "_sum", "Sum", {Pick(), "axes"}, {Float32(), Type("Tidx", DT_INT32)});
      b_.Add(name + "_int", "Cast", {name + "_sum"}, {Type("SrcT", DT_FLOAT), Type("DstT", DT_INT32)});
      b_.Add(predicate, "Greater", {name + "_int", name + "_half"}, {Type("T", DT_INT32)});
    }
    b_.Float(name + "_switch", "Switch", {Pick(), predicate});
    std::string on = name + "_switch:1";
    const int ops = 1 + random_.Below(3);
    for (int k = 0; k < ops; ++k) {
      b_.Float(name + "_on_" + std::to_string(k), "Tanh", {on});
      on = name + "_on_" + std::to_string(k);
    }
    b_.Float(name + "_off", "Neg", {name + "_switch"});
    b_.Float(name + "_merge", "Merge", {name + "_off", on}, {Int("N", 2)});
    Made(name + "_merge");
  }

  void Call() {
    if (b_.item().graph.library().function_size() == 0) {
      *b_.item().graph.mutable_library()->add_function() = Squared();
      *b_.item().graph.mutable_library()->add_function() = Around("outer", "squared");
    }
    lms::testing::Attr f{"f", {}};
    f.second.mutable_func()->set_name(random_.OneIn(2) ? "squared" : "outer");
    const std::string name = New("call");
    b_.Add(name, random_.OneIn(2) ? "PartitionedCall" : "StatefulPartitionedCall", {Pick()},
           {Types("Tin", {DT_FLOAT}), Types("Tout", {DT_FLOAT, DT_FLOAT}), f, Bool("_XlaMustCompile", false)});
    Made(name);
    if (random_.OneIn(2)) Made(name + ":1");
  }

  // What Grappler makes of an AddN.
  void SumInOrderOfArrival() {
    const std::string name = New("sum");
    const auto t = Float32();
    const std::string first = Pick();
    b_.Add(name + "/var", "TemporaryVariable", {"^" + NodeOf(first)},
           {Float32("dtype"), Shape("shape", {side_, side_}), Text("var_name", name)});
    b_.Add(name + "/zeros", "ZerosLike", {first}, {t});
    b_.Add(name + "/init", "Assign", {name + "/var", name + "/zeros"}, {t});
    std::vector<std::string> inputs{name + "/init"};
    const int terms = 2 + random_.Below(4);
    for (int i = 0; i < terms; ++i) {
      const std::string add = name + "/add_" + std::to_string(i);
      b_.Add(add, "AssignAdd", {name + "/init", Pick()}, {t});
      inputs.push_back("^" + add);
    }
    b_.Add(name, "DestroyTemporaryVariable", inputs, {t, Text("var_name", name)});
    Made(name);
    // The order of arrival is that of a function's graph, which a session prunes and numbers in another way.
    runnable_ = false;
  }

  // Pushed in the forward pass, popped at once: a list of one to three tiles.
  void List() {
    const std::string name = New("list");
    const auto type = Type("element_dtype", DT_FLOAT);
    Scalar(name + "_most", 3);
    b_.Add(name, "EmptyTensorList", {"tile_shape", name + "_most"}, {type, Type("shape_type", DT_INT32)});
    std::string list = name;
    const int pushes = 1 + random_.Below(3);
    for (int k = 0; k < pushes; ++k) {
      const std::string push = name + "_push_" + std::to_string(k);
      b_.Add(push, "TensorListPushBack", {list, Pick()}, {type});
      list = push;
    }
    for (int k = 0; k < pushes; ++k) {
      const std::string pop = name + "_pop_" + std::to_string(k);
      b_.Add(pop, "TensorListPopBack", {list, "tile_shape"}, {type});
      Made(pop + ":1");
      list = pop;
    }
  }

  void Loss() {
    forward_ = tiles_;
    b_.Float("loss", "Sum", {tiles_.back(), "axes"}, {Type("Tidx", DT_INT32)});
  }

  // No true gradients, but the reads that they make: each stage takes what one of the forward pass has made.
  void Backward() {
    std::string grad = Op("Sigmoid", {forward_.back()});
    for (int i = static_cast<int>(forward_.size()) - 1; i >= 0; --i) {
      if (random_.OneIn(6)) continue;
      const std::string& kept = forward_[i];
      switch (random_.Below(5)) {
        case 0:
          grad = Op("TanhGrad", {kept, grad});
          break;
        case 1:
          grad = Op("ReluGrad", {grad, kept});
          break;
        case 2:
          grad = Op("Mul", {grad, kept});
          break;
        case 3:
          grad = Op("SigmoidGrad", {kept, grad});
          break;
        default:
          grad = Op("MatMul", {grad, Weight()}, {Bool("transpose_b", true)});
      }
      if (random_.OneIn(2)) Update(kept, grad);
    }
    Update(feeds_[0], grad);
  }

  void Update(const std::string& kept, const std::string& grad) {
    const std::string product = New("weight_grad");
    b_.Float(product, "MatMul", {kept, grad}, {Bool("transpose_a", true)});
    const int n = random_.Below(variables_);
    if (updated_.size() <= static_cast<size_t>(n)) updated_.resize(n + 1);
    // One update per variable: which of two comes first would be nobody's.
    if (updated_[n]) {
      b_.Float(New("unused"), "Neg", {product});
      return;
    }
    updated_[n] = true;
    const std::string variable = "var_" + std::to_string(n);
    const std::string name = New("update");
    // All that reads the variable has read it: what else is read would depend on the moment.
    if (random_.OneIn(3)) {
      b_.Constant(name + "_rate", {}, DT_FLOAT);
      b_.Float(name, "ResourceApplyGradientDescent", {variable, name + "_rate", product, "^read_" + std::to_string(n)});
    } else {
      b_.Update(name, variable, product, {"^read_" + std::to_string(n)});
    }
    updates_.push_back(name);
  }

  void Extras() {
    // Control edges from earlier to later nodes of the backward pass, which has no loops.
    const auto& nodes = b_.item().graph.node();
    for (int k = random_.Below(4); k > 0; --k) {
      const std::string from = feeds_[0];
      auto* node = b_.item().graph.mutable_node(random_.Below(nodes.size()));
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
    if (random_.OneIn(4)) {
      std::vector<std::string> waits;
      for (const std::string& update : updates_) waits.push_back("^" + update);
      b_.Add("group", "NoOp", waits);
    }
  }

  void Places() {
    if (!random_.OneIn(8)) return;
    runnable_ = false;
    const std::string device = random_.OneIn(2) ? kOtherCpu : kGpu;
    const bool all = random_.OneIn(2);
    for (auto& node : *b_.item().graph.mutable_node()) {
      if (all || random_.OneIn(3)) node.set_device(device);
    }
    case_.cluster = device == kGpu ? (random_.OneIn(2) ? "gpu" : "fake_gpu") : "cpu";
  }

  void Results() {
    b_.Fetch("loss");
    for (int k = random_.Below(3); k > 0; --k) {
      const std::string tile = Pick(1000);
      // Fetched twice, or from within a branch, it would be another thing to fetch.
      const bool plain = tile.find("if_") == std::string::npos && tile.find("loop") == std::string::npos;
      const auto& fetch = b_.item().fetch;
      const bool fed = std::find(feeds_.begin(), feeds_.end(), tile) != feeds_.end();
      if (plain && !fed && std::find(fetch.begin(), fetch.end(), tile) == fetch.end()) b_.Fetch(tile);
    }
    if (random_.OneIn(3)) b_.item().keep_ops.push_back(NodeOf(Pick(1000)));
    b_.item().optimization_options().allow_pruning_stateful_and_dataset_ops = random_.OneIn(8);
    if (b_.item().optimization_options().allow_pruning_stateful_and_dataset_ops) runnable_ = false;
  }

  // What is said of the arguments' shapes.
  void Claims() {
    if (!random_.OneIn(5)) return;
    runnable_ = false;
    static const auto* const claims = new std::vector<Dims>{
        {-1, -1}, {-1}, {0, 0}, {int64_t{1} << 20, int64_t{1} << 20}, {int64_t{1} << 31, int64_t{1} << 31}};
    const Dims& dims = OneOf(&random_, *claims);
    for (auto& node : *b_.item().graph.mutable_node()) {
      if (node.op() != "Placeholder" && node.op() != "VarHandleOp") continue;
      if (node.op() == "VarHandleOp" && random_.OneIn(2)) continue;
      (*node.mutable_attr())["shape"] = Shape("shape", dims).second;
    }
    // What is known of the sizes contradicts other claims than that they are not known.
    case_.valid = dims == Dims{-1, -1};
  }

  Random& random_;
  int64_t side_;
  GraphBuilder b_;
  FuzzCase case_;
  int count_ = 0;
  int variables_ = 0;
  bool runnable_ = true;
  std::vector<bool> updated_;
  std::vector<std::string> feeds_;
  std::vector<std::string> tiles_;  // tensors of [side, side] so far
  std::vector<std::string> forward_;
  std::vector<std::string> updates_;
};

tensorflow::AttrValue& Option(FuzzCase* fuzz_case, const std::string& name) {
  return (*fuzz_case->config.mutable_parameter_map())[name];
}

}  // namespace

void AddOptions(Random* random, FuzzCase* fuzz_case) {
  // Little time: the planner is fuzzed by others.
  Option(fuzz_case, "planner_seconds").set_f(random->OneIn(8) ? 0.001F : 0.01F);
  Option(fuzz_case, "profile").set_s("none");
  switch (random->Below(8)) {
    case 0:
      Option(fuzz_case, "memory_budget").set_s("min");
      break;
    case 1:
      Option(fuzz_case, "memory_budget").set_i(1 + random->Below(1 << 22));
      break;
    case 2:
      Option(fuzz_case, "memory_budget").set_i(int64_t{1} << (10 + random->Below(52)));
      break;
    case 3:
      if (random->OneIn(4)) {
        Option(fuzz_case, "memory_budget").set_s("auto");
        break;
      }
      [[fallthrough]];
    default:
      Option(fuzz_case, "memory_budget").set_s(std::to_string(45 + random->Below(52)) + "%");
  }
  const auto flag = [&](const char* name, int one_in, bool value) {
    if (random->OneIn(one_in)) Option(fuzz_case, name).set_b(value);
  };
  flag("recompute", 6, false);
  flag("reorder", 6, false);
  flag("swap", 6, false);
  flag("strict", 10, true);
  const auto& map = fuzz_case->config.parameter_map();
  if (Option(fuzz_case, "memory_budget").s() == "min") fuzz_case->config.mutable_parameter_map()->erase("swap");
  if (map.count("swap") == 0 && random->OneIn(3)) {
    // A rate that is given is not measured.
    Option(fuzz_case, "swap_to").set_s("disk");
    Option(fuzz_case, "swap_out_bandwidth").set_s(random->OneIn(2) ? "1GB" : "1TB");
    Option(fuzz_case, "swap_in_bandwidth").set_s("2GB");
    if (random->OneIn(4)) Option(fuzz_case, "swap_disk_limit").set_i(int64_t{1} << (10 + random->Below(30)));
    if (random->OneIn(6)) Option(fuzz_case, "swap_sync").set_s("both");
    if (random->OneIn(6)) Option(fuzz_case, "swap_tensors").set_i(random->Below(4));
    if (map.count("swap_sync") == 0 && random->OneIn(6)) Option(fuzz_case, "swap_in_ahead").set_i(random->Below(5));
    if (random->OneIn(6)) Option(fuzz_case, "swap_group").set_i(random->Below(5));
  }
  if (map.count("reorder") == 0 && random->OneIn(10))
    Option(fuzz_case, "serialize_bytes").set_i(1 << random->Below(20));
  if (random->OneIn(5)) Option(fuzz_case, "unknown_dim").set_i(1 + random->Below(1000));
  if (random->OneIn(10)) Option(fuzz_case, "safety_margin").set_f(0.5F);
  if (random->OneIn(20)) Option(fuzz_case, "_feedback").set_s("1.2|call 2 took more");
}

FuzzCase RandomStep(Random* random) {
  FuzzCase fuzz_case = Step(random).Make();
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

FuzzCase LongChain(Random* random, int nodes) {
  GraphBuilder b;
  b.Feed("x", {8, 8});
  std::string last = "x";
  const bool views = random->OneIn(3);
  const bool control = random->OneIn(3);
  for (int i = 0; i < nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    b.Float(name, views ? "Identity" : "Neg", {control && i > 0 ? "x" : last});
    if (control && i > 0) b.item().graph.mutable_node(b.item().graph.node_size() - 1)->add_input("^" + last);
    last = name;
  }
  b.Fetch(last);
  FuzzCase fuzz_case;
  fuzz_case.item = std::move(b.item());
  fuzz_case.item.graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  fuzz_case.valid = true;
  fuzz_case.why = "a chain of " + std::to_string(nodes);
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

FuzzCase WideSum(Random* random, int inputs) {
  GraphBuilder b;
  b.Feed("x", {64, 64});
  std::vector<std::string> terms;
  const bool control = random->OneIn(3);
  const bool one = random->OneIn(2);
  for (int i = 0; i < inputs; ++i) {
    if (i == 0 || !one) {
      b.Float("n" + std::to_string(i), "Neg", {"x"});
      terms.push_back((control && i > 0 ? "^n" : "n") + std::to_string(i));
    } else if (!control) {
      terms.push_back("n0");
    }
  }
  b.Float("sum", "AddN", terms, {Int("N", control ? 1 : inputs)});
  b.Fetch("sum");
  FuzzCase fuzz_case;
  fuzz_case.item = std::move(b.item());
  fuzz_case.item.graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  fuzz_case.valid = true;
  fuzz_case.why = "a sum of " + std::to_string(inputs);
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

}  // namespace lms::fuzz
