#include "tests/cc/fuzz/step_control_flow.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {
namespace {

using lms::testing::Bool;
using lms::testing::Float32;
using lms::testing::Int;
using lms::testing::Text;
using lms::testing::Type;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;

void Enter(StepBuilder* step, const std::string& frame, const std::string& name, const std::string& value,
           tensorflow::DataType type, bool constant) {
  step->graph.Add(name, "Enter", {value},
                  {Type("T", type), Text("frame_name", frame), Bool("is_constant", constant),
                   Int("parallel_iterations", step->random.OneIn(2) ? 10 : 1)});
}

// What goes from one iteration to the next: the value, its place in the body, its result.
void Carry(StepBuilder* step, const std::string& frame, const std::string& name, const std::string& value,
           const std::string& next, tensorflow::DataType type, const std::vector<std::string>& controls = {}) {
  Enter(step, frame, name + "_enter", value, type, false);
  step->graph.Add(name + "_merge", "Merge", {name + "_enter", name + "_next"}, {Type("T", type), Int("N", 2)});
  step->graph.Add(name + "_switch", "Switch", {name + "_merge", frame + "_cond"}, {Type("T", type)});
  std::vector<std::string> inputs{next};
  inputs.insert(inputs.end(), controls.begin(), controls.end());
  step->graph.Add(name + "_next", "NextIteration", inputs, {Type("T", type)});
  step->graph.Add(name + "_exit", "Exit", {name + "_switch"}, {Type("T", type)});
}

// A loop without a body: a counter, its bound and the predicate. `trigger`: of the constants, in a loop around it.
void AddCounter(StepBuilder* step, const std::string& frame, int rounds, const std::string& trigger = "") {
  const std::string i = frame + "_i";
  for (const auto& [name, number] : {std::pair<const char*, int>{"_zero", 0}, {"_one", 1}, {"_rounds", rounds}}) {
    step->Scalar(frame + name, number);
    auto* graph = &step->graph.item().graph;
    if (!trigger.empty()) graph->mutable_node(graph->node_size() - 1)->add_input(trigger);
  }
  Enter(step, frame, frame + "_one_in", frame + "_one", DT_INT32, true);
  Enter(step, frame, frame + "_rounds_in", frame + "_rounds", DT_INT32, true);
  Carry(step, frame, i, frame + "_zero", i + "_add", DT_INT32);
  step->graph.Add(i + "_less", "Less", {i + "_merge", frame + "_rounds_in"}, {Type("T", DT_INT32)});
  step->graph.Add(frame + "_cond", "LoopCond", {i + "_less"});
  step->graph.Add(i + "_add", "AddV2", {i + "_switch:1", frame + "_one_in"}, {Type("T", DT_INT32)});
}

// Rewires the loop's carried value through a loop of its own.
void Nested(StepBuilder* step, const std::string& value, const std::string& y) {
  const std::string inner = step->New("inner");
  // Constants within the outer loop hang on its iteration.
  AddCounter(step, inner, 2, "^" + StepBuilder::NodeOf(value));
  step->graph.Float(inner + "_body", "Sigmoid", {inner + "_y_switch:1"});
  Carry(step, inner, inner + "_y", value, inner + "_body", DT_FLOAT);
  for (auto& node : *step->graph.item().graph.mutable_node()) {
    if (node.name() == y + "_next") node.set_input(0, inner + "_y_exit");
  }
}

}  // namespace

void AddLoop(StepBuilder* step) {
  const std::string frame = step->New("loop");
  AddCounter(step, frame, step->random.Below(5));
  const std::string y = frame + "_y";
  const bool weight = step->random.OneIn(2);
  if (weight) Enter(step, frame, frame + "_weight", step->Weight(), DT_FLOAT, true);
  std::vector<std::string> body{y + "_switch:1"};
  const int ops = 1 + step->random.Below(5);
  for (int k = 0; k < ops; ++k) {
    const std::string name = frame + "_op_" + std::to_string(k);
    const std::string& a = body[step->random.Below(static_cast<int>(body.size()))];
    switch (step->random.Below(4)) {
      case 0:
        step->graph.Float(name, "Tanh", {body.back()});
        break;
      case 1:
        step->graph.Float(name, "AddV2", {body.back(), a});
        break;
      case 2:
        step->graph.Float(name, "MatMul", {body.back(), weight ? frame + "_weight" : a});
        break;
      default:
        step->graph.Float(name, "Mul", {a, body.back()});
    }
    body.push_back(name);
  }
  const std::string result = body.back();
  Carry(step, frame, y, step->Pick(), result, DT_FLOAT);
  step->Made(y + "_exit");
  // Another loop's counter on the way in: a loop within a loop.
  if (step->random.OneIn(3)) Nested(step, result, y);
}

void AddBranch(StepBuilder* step) {
  const std::string name = step->New("if");
  const std::string predicate = name + "_predicate";
  if (step->random.OneIn(2)) {
    step->Scalar(predicate, step->random.Below(2), tensorflow::DT_BOOL);
  } else {
    step->Scalar(name + "_half", 0);
    step->graph.Add(name + "_sum", "Sum", {step->Pick(), "axes"}, {Float32(), Type("Tidx", DT_INT32)});
    step->graph.Add(name + "_int", "Cast", {name + "_sum"}, {Type("SrcT", DT_FLOAT), Type("DstT", DT_INT32)});
    step->graph.Add(predicate, "Greater", {name + "_int", name + "_half"}, {Type("T", DT_INT32)});
  }
  step->graph.Float(name + "_switch", "Switch", {step->Pick(), predicate});
  std::string on = name + "_switch:1";
  const int ops = 1 + step->random.Below(3);
  for (int k = 0; k < ops; ++k) {
    step->graph.Float(name + "_on_" + std::to_string(k), "Tanh", {on});
    on = name + "_on_" + std::to_string(k);
  }
  step->graph.Float(name + "_off", "Neg", {name + "_switch"});
  step->graph.Float(name + "_merge", "Merge", {name + "_off", on}, {Int("N", 2)});
  step->Made(name + "_merge");
}

}  // namespace lms::fuzz
