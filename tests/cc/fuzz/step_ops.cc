#include "tests/cc/fuzz/step_ops.h"

#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tests/cc/fuzz/step_control_flow.h"
#include "tests/cc/tf/function_node.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {
namespace {

using lms::testing::Bool;
using lms::testing::Float32;
using lms::testing::FunctionNode;
using lms::testing::Int;
using lms::testing::Shape;
using lms::testing::Text;
using lms::testing::Type;
using lms::testing::Types;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::FunctionDefHelper;

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

void AddRandom(StepBuilder* step) {
  const std::string name = step->New("random");
  step->graph.Add(name, "RandomUniform", {"tile_shape"},
                  {Type("T", DT_INT32), Float32("dtype"), Int("seed", 1 + step->random.Below(9)), Int("seed2", 7)});
  step->Op("Mul", {step->Pick(), name});
}

void AddConcatAndSlice(StepBuilder* step) {
  const std::string axis = step->New("axis");
  step->Scalar(axis, 0);
  const std::string concat = step->New("concat");
  step->graph.Float(concat, "ConcatV2", {step->Pick(), step->Pick(), axis}, {Int("N", 2), Type("Tidx", DT_INT32)});
  const std::string split = step->New("split");
  step->graph.Float(split, "Split", {axis, concat}, {Int("num_split", 2)});
  step->Made(split);
  step->Made(split + ":1");
}

void AddTwoOutputs(StepBuilder* step) {
  const std::string name = step->New("identity_n");
  step->graph.Add(name, "IdentityN", {step->Pick(), step->Pick()}, {Types("T", {DT_FLOAT, DT_FLOAT})});
  step->Made(name);
  step->Made(name + ":1");
}

void AddHalf(StepBuilder* step) {
  const std::string down = step->New("half");
  step->graph.Add(down, "Cast", {step->Pick()}, {Type("SrcT", DT_FLOAT), Type("DstT", tensorflow::DT_HALF)});
  const std::string up = step->New("up");
  step->graph.Add(up, "Cast", {down}, {Type("SrcT", tensorflow::DT_HALF), Type("DstT", DT_FLOAT)});
  step->Made(up);
}

void AddConvolution(StepBuilder* step) {
  const std::string shape = step->New("image_shape");
  step->graph.ShapeConstant(shape, {1, static_cast<int>(step->side), static_cast<int>(step->side), 1});
  const std::string image = step->New("image");
  step->graph.Float(image, "Reshape", {step->Pick(2), shape}, {Type("Tshape", DT_INT32)});
  const std::string filter = step->New("filter");
  step->graph.Constant(filter, {3, 3, 1, 1});
  lms::testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  const std::string conv = step->New("conv");
  step->graph.Float(conv, "Conv2D", {image, filter}, {strides, Text("padding", "SAME")});
  step->Op("Reshape", {conv, "tile_shape"}, {Type("Tshape", DT_INT32)});
  if (step->side == 0) step->runnable = false;  // an empty image has no convolution
}

void AddCall(StepBuilder* step) {
  if (step->graph.item().graph.library().function_size() == 0) {
    *step->graph.item().graph.mutable_library()->add_function() = Squared();
    *step->graph.item().graph.mutable_library()->add_function() = Around("outer", "squared");
  }
  lms::testing::Attr f{"f", {}};
  f.second.mutable_func()->set_name(step->random.OneIn(2) ? "squared" : "outer");
  const std::string name = step->New("call");
  step->graph.Add(name, step->random.OneIn(2) ? "PartitionedCall" : "StatefulPartitionedCall", {step->Pick()},
                  {Types("Tin", {DT_FLOAT}), Types("Tout", {DT_FLOAT, DT_FLOAT}), f, Bool("_XlaMustCompile", false)});
  step->Made(name);
  if (step->random.OneIn(2)) step->Made(name + ":1");
}

// What Grappler makes of an AddN.
void AddSumInOrderOfArrival(StepBuilder* step) {
  const std::string name = step->New("sum");
  const auto t = Float32();
  const std::string first = step->Pick();
  step->graph.Add(name + "/var", "TemporaryVariable", {"^" + StepBuilder::NodeOf(first)},
                  {Float32("dtype"), Shape("shape", {step->side, step->side}), Text("var_name", name)});
  step->graph.Add(name + "/zeros", "ZerosLike", {first}, {t});
  step->graph.Add(name + "/init", "Assign", {name + "/var", name + "/zeros"}, {t});
  std::vector<std::string> inputs{name + "/init"};
  const int terms = 2 + step->random.Below(4);
  for (int i = 0; i < terms; ++i) {
    const std::string add = name + "/add_" + std::to_string(i);
    step->graph.Add(add, "AssignAdd", {name + "/init", step->Pick()}, {t});
    inputs.push_back("^" + add);
  }
  step->graph.Add(name, "DestroyTemporaryVariable", inputs, {t, Text("var_name", name)});
  step->Made(name);
  // The order of arrival is that of a function's graph, which a session prunes and numbers in another way.
  step->runnable = false;
}

// Pushed in the forward pass, popped at once: a list of one to three tiles.
void AddList(StepBuilder* step) {
  const std::string name = step->New("list");
  const auto type = Type("element_dtype", DT_FLOAT);
  step->Scalar(name + "_most", 3);
  step->graph.Add(name, "EmptyTensorList", {"tile_shape", name + "_most"}, {type, Type("shape_type", DT_INT32)});
  std::string list = name;
  const int pushes = 1 + step->random.Below(3);
  for (int k = 0; k < pushes; ++k) {
    const std::string push = name + "_push_" + std::to_string(k);
    step->graph.Add(push, "TensorListPushBack", {list, step->Pick()}, {type});
    list = push;
  }
  for (int k = 0; k < pushes; ++k) {
    const std::string pop = name + "_pop_" + std::to_string(k);
    step->graph.Add(pop, "TensorListPopBack", {list, "tile_shape"}, {type});
    step->Made(pop + ":1");
    list = pop;
  }
}

}  // namespace

void AddForwardOp(StepBuilder* step) {
  switch (step->random.Below(19)) {
    case 0:
    case 1:
    case 2:
      step->Op("MatMul", {step->Pick(2), step->Weight()}, {Bool("transpose_a", step->random.OneIn(4))});
      break;
    case 3:
    case 4:
      step->Op(
          OneOf(&step->random, std::vector<std::string>{"Tanh", "Relu", "Sigmoid", "Exp", "Erf", "Softmax", "Neg"}),
          {step->Pick(2)});
      break;
    case 5:
      step->Op(OneOf(&step->random, std::vector<std::string>{"AddV2", "Mul", "Sub", "Maximum"}),
               {step->Pick(), step->Pick()});
      break;
    case 6: {
      std::vector<std::string> inputs;
      const int n = 2 + step->random.Below(4);
      for (int k = 0; k < n; ++k) inputs.push_back(step->Pick());
      step->Op("AddN", inputs, {Int("N", n)});
      // Which term is in front depends on who holds them, which lms reads off a function's graph; a session numbers
      // its nodes in another way.
      if (n > 2) step->runnable = false;
      break;
    }
    case 7:
      step->Op(OneOf(&step->random, std::vector<std::string>{"Identity", "StopGradient", "PreventGradient"}),
               {step->Pick(2)});
      break;
    case 8:
      step->Op("Reshape", {step->Pick(2), "tile_shape"}, {Type("Tshape", DT_INT32)});
      break;
    case 9:
      AddRandom(step);
      break;
    case 10:
      AddConcatAndSlice(step);
      break;
    case 11:
      AddTwoOutputs(step);
      break;
    case 12:
      if (step->random.OneIn(3)) AddLoop(step);
      break;
    case 13:
      if (step->random.OneIn(2)) AddBranch(step);
      break;
    case 14:
      if (step->random.OneIn(2)) AddCall(step);
      break;
    case 15:
      if (step->random.OneIn(2)) AddSumInOrderOfArrival(step);
      break;
    case 16:
      AddHalf(step);
      break;
    case 17:
      if (step->random.OneIn(3)) AddList(step);
      break;
    default:
      if (step->random.OneIn(3)) AddConvolution(step);
  }
}

}  // namespace lms::fuzz
