#include "tests/cc/fuzz/step_builder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lms::fuzz {

using lms::testing::Type;
using tensorflow::DT_INT32;

StepBuilder::StepBuilder(lms::testing::Random* random)
    : random(*random), side(OneOf(random, std::vector<int64_t>{0, 1, 64, 128, 192})) {
  // Small functions are skipped at once where the budget is relative: most are of some size.
  if (side < 64 && !random->OneIn(6)) side = 192;
}

std::string StepBuilder::Pick(int back) {
  const int size = static_cast<int>(tiles.size());
  return tiles[size - 1 - random.Below(std::min(size, back))];
}

std::string StepBuilder::Weight() {
  const std::string n = std::to_string(random.Below(variables));
  return lms::testing::FindNode(graph.item().graph, "cast_" + n) != nullptr && random.OneIn(2) ? "cast_" + n
                                                                                               : "read_" + n;
}

std::string StepBuilder::Made(const std::string& name) {
  tiles.push_back(name);
  return name;
}

std::string StepBuilder::Op(const std::string& op, const std::vector<std::string>& inputs,
                            std::vector<lms::testing::Attr> attrs) {
  const std::string name = New(op);
  graph.Float(name, op, inputs, std::move(attrs));
  return Made(name);
}

void StepBuilder::Scalar(const std::string& name, int number, tensorflow::DataType type) {
  lms::testing::Attr value{"value", {}};
  value.second.mutable_tensor()->set_dtype(type);
  value.second.mutable_tensor()->mutable_tensor_shape();
  if (type == DT_INT32) value.second.mutable_tensor()->add_int_val(number);
  if (type == tensorflow::DT_BOOL) value.second.mutable_tensor()->add_bool_val(number != 0);
  graph.Add(name, "Const", {}, {Type("dtype", type), value});
}

}  // namespace lms::fuzz
