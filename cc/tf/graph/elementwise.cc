#include "cc/tf/graph/elementwise.h"

#include <set>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

constexpr int kNumbersOfStep = 3;
constexpr int kLastKind = static_cast<int>(ElementwiseKind::kNeg);

bool ChannelsAreLast(const tensorflow::NodeDef& node) {
  const auto format = node.attr().find("data_format");
  return format == node.attr().end() || format->second.s() == "NHWC";
}

bool HasTwoInputs(const tensorflow::NodeDef& node) {
  const auto count = node.attr().find("N");
  return count != node.attr().end() && count->second.i() == 2;
}

}  // namespace

std::optional<ElementwiseKind> ElementwiseKindOf(const tensorflow::NodeDef& node) {
  const auto type = node.attr().find("T");
  if (type == node.attr().end()) return std::nullopt;
  if (type->second.type() != tensorflow::DT_FLOAT && type->second.type() != tensorflow::DT_DOUBLE) return std::nullopt;
  const std::string& op = node.op();
  if (op == "AddV2" || op == "Add") return ElementwiseKind::kAdd;
  if (op == "BiasAdd" && ChannelsAreLast(node)) return ElementwiseKind::kAdd;
  if (op == "AddN" && HasTwoInputs(node)) return ElementwiseKind::kAdd;
  if (op == "Sub") return ElementwiseKind::kSub;
  if (op == "Mul") return ElementwiseKind::kMul;
  if (op == "RealDiv") return ElementwiseKind::kDiv;
  if (op == "Neg") return ElementwiseKind::kNeg;
  return std::nullopt;
}

std::vector<int> AsNumbers(const std::vector<ElementwiseStep>& program) {
  std::vector<int> numbers;
  for (const ElementwiseStep& step : program) {
    numbers.insert(numbers.end(), {static_cast<int>(step.kind), step.left, step.right});
  }
  return numbers;
}

std::optional<std::vector<ElementwiseStep>> ReadProgram(const std::vector<int>& numbers, int inputs) {
  if (numbers.empty() || numbers.size() % kNumbersOfStep != 0) return std::nullopt;
  std::vector<ElementwiseStep> program;
  for (size_t i = 0; i < numbers.size(); i += kNumbersOfStep) {
    const int least = program.empty() ? 0 : kResultBefore;
    for (const int operand : {numbers[i + 1], numbers[i + 2]}) {
      if (operand < least || operand >= inputs) return std::nullopt;
    }
    if (numbers[i] < 0 || numbers[i] > kLastKind) return std::nullopt;
    program.push_back({static_cast<ElementwiseKind>(numbers[i]), numbers[i + 1], numbers[i + 2]});
  }
  return program;
}

std::vector<int> TakeoverOrder(const std::vector<ElementwiseStep>& program) {
  std::vector<int> order;
  std::set<int> read_later;
  for (size_t i = program.size(); i-- > 0;) {
    const ElementwiseStep& step = program[i];
    // Read twice by one op, memory has two holders: neither gives it up.
    if (step.left == step.right && step.kind != ElementwiseKind::kNeg) break;
    // Whatever memory a result before has, it is taken over: operands behind it are not tried.
    bool before = false;
    for (const int operand : {step.left, step.right}) {
      if (operand == kResultBefore) {
        before = true;
      } else if (read_later.insert(operand).second && !before) {
        order.push_back(operand);
      }
    }
    if (!before) break;
  }
  return order;
}

}  // namespace lms
