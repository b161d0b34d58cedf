// What the parts of a random training step share: the graph so far, and the tensors that any op may take.
//
// All large tensors are squares of one size, so that any op takes any of them.

#ifndef LMS_TESTS_CC_FUZZ_STEP_BUILDER_H_
#define LMS_TESTS_CC_FUZZ_STEP_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/types.pb.h"
#include "tests/cc/core/random_graph.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {

template <typename T>
const T& OneOf(lms::testing::Random* random, const std::vector<T>& values) {
  return values[random->Below(static_cast<int>(values.size()))];
}

struct StepBuilder {
  explicit StepBuilder(lms::testing::Random* random);

  // A name for a node of this op.
  std::string New(const std::string& op) { return op + "_" + std::to_string(count++); }

  static std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

  // One of the last so many squares.
  std::string Pick(int back = 6);

  // A weight as the step reads it.
  std::string Weight();

  // Notes that there is one more square, and returns it.
  std::string Made(const std::string& name);

  // Adds an op that makes a square.
  std::string Op(const std::string& op, const std::vector<std::string>& inputs,
                 std::vector<lms::testing::Attr> attrs = {});

  // A constant without dimensions; of booleans: whether `number` is other than 0.
  void Scalar(const std::string& name, int number, tensorflow::DataType type = tensorflow::DT_INT32);

  lms::testing::Random& random;
  int64_t side;  // of the squares
  lms::testing::GraphBuilder graph;
  int variables = 0;               // "var_0" and so on, read by "read_0" and so on, some cast by "cast_0" …
  bool runnable = true;            // see FuzzCase
  std::vector<std::string> tiles;  // the squares so far
  int count = 0;                   // of names
};

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_STEP_BUILDER_H_
