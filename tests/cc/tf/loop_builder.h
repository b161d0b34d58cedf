// A loop to put nodes into.

#ifndef LMS_TESTS_CC_TF_LOOP_BUILDER_H_
#define LMS_TESTS_CC_TF_LOOP_BUILDER_H_

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {

inline constexpr int kRounds = 5;
inline constexpr int kParallel = 3;  // iterations at once

inline Attr OfType(tensorflow::DataType type) { return Type("T", type); }
// Of a list of tensors.
inline Attr Element() { return Type("element_dtype", tensorflow::DT_FLOAT); }
// Of the shape that a list is made with.
inline Attr ShapeType() { return Type("shape_type", tensorflow::DT_INT32); }

// A loop that counts to kRounds: frame "loop", with nodes i_enter, i_merge, i_less, cond, i_switch, i_add, i_next.
class LoopBuilder : public GraphBuilder {
 public:
  LoopBuilder() {
    Feed("x", {256, 64});
    Scalar("zero", 0);
    Scalar("one", 1);
    Scalar("rounds", kRounds);
    Enter("one_in", "one", tensorflow::DT_INT32, true);
    Enter("rounds_in", "rounds", tensorflow::DT_INT32, true);
    Carry("i", "zero", "i_add", tensorflow::DT_INT32);
    Add("i_less", "Less", {"i_merge", "rounds_in"}, {OfType(tensorflow::DT_INT32)});
    Add("cond", "LoopCond", {"i_less"});
    Add("i_add", "AddV2", {"i_switch:1", "one_in"}, {OfType(tensorflow::DT_INT32)});
  }

  void Enter(const std::string& name, const std::string& value, tensorflow::DataType type, bool constant) {
    Add(name, "Enter", {value},
        {OfType(type), Text("frame_name", "loop"), Bool("is_constant", constant),
         Int("parallel_iterations", kParallel)});
  }

  void Carry(const std::string& name, const std::string& value, const std::string& next, tensorflow::DataType type,
             const std::vector<std::string>& controls = {}) {
    Enter(name + "_enter", value, type, false);
    Add(name + "_merge", "Merge", {name + "_enter", name + "_next"}, {OfType(type), Int("N", 2)});
    Add(name + "_switch", "Switch", {name + "_merge", "cond"}, {OfType(type)});
    std::vector<std::string> inputs{next};
    inputs.insert(inputs.end(), controls.begin(), controls.end());
    Add(name + "_next", "NextIteration", inputs, {OfType(type)});
    Add(name + "_exit", "Exit", {name + "_switch"}, {OfType(type)});
  }

  void Scalar(const std::string& name, int number) {
    Attr value{"value", {}};
    value.second.mutable_tensor()->set_dtype(tensorflow::DT_INT32);
    value.second.mutable_tensor()->mutable_tensor_shape();
    value.second.mutable_tensor()->add_int_val(number);
    Add(name, "Const", {}, {Type("dtype", tensorflow::DT_INT32), value});
  }
};

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_LOOP_BUILDER_H_
