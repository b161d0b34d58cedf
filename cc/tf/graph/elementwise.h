// Element-wise ops in one: what a node of LmsElementwise computes, as its attribute `program` says.
//
// A program is a list of steps. Each reads two operands, an input of the node or the result of the step before it, and
// gives one value for each element; inputs are broadcast to one shape, as numpy does it. The last step's result is the
// output. Only operations whose result IEEE 754 fixes to the last bit are among them: so it does not matter which
// processor's instructions compute them, how many at once, and where a shape is cut. (Of two NaNs either may come out,
// as of TensorFlow's kernels.)

#ifndef LMS_CC_TF_GRAPH_ELEMENTWISE_H_
#define LMS_CC_TF_GRAPH_ELEMENTWISE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

enum class ElementwiseKind : uint8_t { kAdd, kSub, kMul, kDiv, kNeg };

inline constexpr int kResultBefore = -1;  // an operand: not an input of the node
// The attribute of a node that takes memory over only where its steps, as ops by themselves, would (TakeoverOrder()).
inline constexpr char kAsParts[] = "as_parts";

struct ElementwiseStep {
  ElementwiseKind kind;
  int left;
  int right;  // of kNeg the same as `left`
};

// What the node computes, if it is one of these and nothing else; on floats and doubles.
std::optional<ElementwiseKind> ElementwiseKindOf(const tensorflow::NodeDef& node);

// As the attribute: three numbers a step. Reading gives nothing where it is no program of `inputs` inputs.
std::vector<int> AsNumbers(const std::vector<ElementwiseStep>& program);
std::optional<std::vector<ElementwiseStep>> ReadProgram(const std::vector<int>& numbers, int inputs);

// Inputs, in the order in which the ops by themselves would try to take over the memory of one for the last result:
// TensorFlow's take that of the first operand that nobody else reads. A result before is such an operand, and has the
// memory of an input of its own, or else new memory. A step's memory is foretold for single ops, and whose memory lives
// on decides which places are free (core/simulate/places.h).
std::vector<int> TakeoverOrder(const std::vector<ElementwiseStep>& program);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_ELEMENTWISE_H_
