// A loop and its gradient, as TensorFlow's while_v2 makes them: each tensor that the gradient reads has a list.

#ifndef LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_BUILDER_H_
#define LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_BUILDER_H_

#include <string>

#include "cc/core/graph/node_names.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms::testing {

inline constexpr tensorflow::DataType kVariant = tensorflow::DT_VARIANT;

// To be changed; null where there is none of that name.
inline tensorflow::NodeDef* Node(tensorflow::GraphDef* graph, const std::string& name) {
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

// The first copy of the node, for the gradient; of that op, where one is given. "" where there is none.
inline std::string CopyOf(const tensorflow::GraphDef& graph, const std::string& original, const std::string& op = "") {
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (!IsLoopName(node.name()) || OriginalName(node.name()) != original) continue;
    if (op.empty() || node.op() == op) return node.name();
  }
  return "";
}

// The forward loop: y := squashed = tanh(product = y @ w), kRounds times, which pushes all three. Its gradient pops
// them as y_pop, product_pop and squashed_pop. (No real one would read the product; here it is there to be kept.)
class GradientLoopBuilder : public LoopBuilder {
 public:
  GradientLoopBuilder() {
    Feed("w", {64, 64});
    Scalar("any", -1);
    Add("maker", "EmptyTensorList", {"any", "rounds"},
        {Type("element_dtype", tensorflow::DT_FLOAT), Type("shape_type", tensorflow::DT_INT32)});
    Enter("w_in", "w", tensorflow::DT_FLOAT, true);
    Carry("y", "x", "squashed", tensorflow::DT_FLOAT);
    Float("product", "MatMul", {"y_switch:1", "w_in"});
    Float("squashed", "Tanh", {"product"});
    // The gradient's loop.
    Scalar("back_zero", 0);
    Constant("axes", {}, tensorflow::DT_INT32);
    BackEnter("back_one_in", "one", tensorflow::DT_INT32, true);
    BackEnter("back_w_in", "w", tensorflow::DT_FLOAT, true);
    BackCarry("b", "back_zero", "b_add", tensorflow::DT_INT32);
    BackEnter("back_rounds_in", "i_exit", tensorflow::DT_INT32, true);
    Add("b_less", "Less", {"b_merge", "back_rounds_in"}, {OfType(tensorflow::DT_INT32)});
    Add("back_cond", "LoopCond", {"b_less"});
    Add("b_add", "AddV2", {"b_switch:1", "back_one_in"}, {OfType(tensorflow::DT_INT32)});
    List("y", "y_switch:1");
    List("product", "product");
    List("squashed", "squashed");
    BackCarry("dy", "y_exit", "dy_next_value", tensorflow::DT_FLOAT);
    Float("slope", "TanhGrad", {"squashed_pop:1", "dy_switch:1"});
    Float("bent", "Mul", {"slope", "product_pop:1"});
    Float("dy_next_value", "MatMul", {"bent", "back_w_in"}, {Bool("transpose_b", true)});
    BackCarry("dw", "w", "dw_sum", tensorflow::DT_FLOAT);
    Float("dw_part", "MatMul", {"y_pop:1", "bent"}, {Bool("transpose_a", true)});
    Float("dw_sum", "AddV2", {"dw_switch:1", "dw_part"});
    for (const std::string exit : {"dy_exit", "dw_exit"}) {
      Float("use_" + exit, "Sum", {exit, "axes"}, {Type("Tidx", tensorflow::DT_INT32)});
      Fetch("use_" + exit);
    }
  }

  void BackEnter(const std::string& name, const std::string& value, tensorflow::DataType type, bool constant) {
    Add(name, "Enter", {value},
        {OfType(type), Text("frame_name", "gradient"), Bool("is_constant", constant),
         Int("parallel_iterations", kParallel)});
  }

  void BackCarry(const std::string& name, const std::string& value, const std::string& next,
                 tensorflow::DataType type) {
    BackEnter(name + "_enter", value, type, false);
    Add(name + "_merge", "Merge", {name + "_enter", name + "_next"}, {OfType(type), Int("N", 2)});
    Add(name + "_switch", "Switch", {name + "_merge", "back_cond"}, {OfType(type)});
    Add(name + "_next", "NextIteration", {next}, {OfType(type)});
    Add(name + "_exit", "Exit", {name + "_switch"}, {OfType(type)});
  }

  // A list of the tensor's values: name_push, name_pop.
  void List(const std::string& name, const std::string& tensor) {
    const Attr element = Type("element_dtype", tensorflow::DT_FLOAT);
    Carry(name + "_list", "maker", name + "_push", kVariant);
    Add(name + "_push", "TensorListPushBack", {name + "_list_switch:1", tensor}, {element});
    BackCarry(name + "_back", name + "_list_exit", name + "_pop", kVariant);
    Add(name + "_any", "Const", {"^b_add"}, {Type("dtype", tensorflow::DT_INT32), AnyShape()});
    Add(name + "_pop", "TensorListPopBack", {name + "_back_switch:1", name + "_any"}, {element});
  }

 private:
  static Attr AnyShape() {
    Attr value{"value", {}};
    value.second.mutable_tensor()->set_dtype(tensorflow::DT_INT32);
    value.second.mutable_tensor()->mutable_tensor_shape();
    value.second.mutable_tensor()->add_int_val(-1);
    return value;
  }
};

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_BUILDER_H_
