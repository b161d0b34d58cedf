#include "cc/tf/sizes/workspace.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "cc/tf/graph/op_traits.h"
#include "cc/tf/sizes/kernel_workspace.h"
#include "cc/tf/sizes/product_workspace.h"

namespace lms {
namespace {

using tensorflow::NodeDef;

// The gradient of a filter, by XLA on the CPU (2.21, by the allocator; batches, sides, 96 to 768 channels, filters of 3
// and 7, strides of 1 and 2, groups of 1 to all channels). It holds transposed copies of the gradient and of the input
// (the latter in the storage of the input's gradient, where that is computed as well), and a filter. Of a depthwise
// convolution that is the dense filter, with zeros, twice at times: [7, 7, 1, 768] becomes 115 MB.
int64_t FilterGradient(const SizedOp& op, bool with_input_gradient) {
  if (op.inputs.size() != 3 || op.outputs.size() != 1) return 0;
  const auto& input = op.inputs[0].shape();
  const auto& filter = op.outputs[0].shape();
  if (input.unknown_rank() || filter.unknown_rank() || input.dim_size() != 4 || filter.dim_size() != 4) return 0;
  const int64_t channels = input.dim(TextAttr(*op.node, "data_format") == "NCHW" ? 1 : 3).size();
  const bool depthwise = channels > 1 && filter.dim(2).size() == 1 && filter.dim(3).size() == channels;
  const int64_t filter_bytes = Product(BytesOf(op.outputs[0]), depthwise ? channels : 1);
  const int64_t copies = BytesOf(op.inputs[2]) + (with_input_gradient ? 0 : BytesOf(op.inputs[0]));
  return std::max(depthwise ? 2 * filter_bytes : 0, copies + filter_bytes);
}

// What an axis of an Einsum is to the matrix product that it becomes. In the order in which the kernel wants them.
enum Role { kBroadcast, kBatch, kFree, kContract, kReduce };
using Labels = std::vector<int>;  // per axis: a number for each letter, in order of first appearance

class Equation {
 public:
  // False where it is none of two operands without repeated letters and "...".
  bool Parse(const std::string& text) {
    const size_t comma = text.find(',');
    const size_t arrow = text.find("->");
    if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
    if (text.find('.') != std::string::npos || text.find(',', comma + 1) != std::string::npos) return false;
    return Read(text.substr(0, comma), &operands[0]) && Read(text.substr(comma + 1, arrow - comma - 1), &operands[1]) &&
           Read(text.substr(arrow + 2), &result);
  }

  Role RoleOf(int label) const {
    const bool both = Has(operands[0], label) && Has(operands[1], label);
    if (Has(result, label)) return both ? kBatch : kFree;
    return both ? kContract : kReduce;
  }

  // Is the operand taken as it is? So too where the product only has to be told that it comes transposed.
  bool InOrder(const Labels& labels) const { return Sorted(labels, kFree, kContract) || Swapped(labels); }

  // Is it taken with what is contracted first?
  bool Swapped(const Labels& labels) const { return Sorted(labels, kContract, kFree); }

  // The product: batch, what is left of the first operand, what is left of the second one.
  bool ResultInOrder() const {
    const auto rank = [&](int label) {
      return std::make_tuple(RoleOf(label) == kBatch ? 0 : Has(operands[0], label) ? 1 : 2, label);
    };
    return std::is_sorted(result.begin(), result.end(), [&](int a, int b) { return rank(a) < rank(b); });
  }

  Labels operands[2];
  Labels result;

 private:
  // `free` and `contract`: the places that they have.
  bool Sorted(const Labels& labels, Role free, Role contract) const {
    const auto rank = [&](int label) {
      const Role role = RoleOf(label);
      return std::make_tuple(role == kFree ? free : role == kContract ? contract : role, label);
    };
    return std::is_sorted(labels.begin(), labels.end(), [&](int a, int b) { return rank(a) < rank(b); });
  }

  static bool Has(const Labels& labels, int label) {
    return std::find(labels.begin(), labels.end(), label) != labels.end();
  }

  bool Read(const std::string& letters, Labels* labels) {
    for (const char letter : letters) {
      const int label = numbers_.emplace(letter, static_cast<int>(numbers_.size())).first->second;
      if (Has(*labels, label)) return false;
      labels->push_back(label);
    }
    return true;
  }

  std::unordered_map<char, int> numbers_;
};

// Of the product that the equation becomes; empty where the operands are not as it says.
MatrixShape ShapeOf(const Equation& equation, const SizedOp& op, int64_t matrices) {
  MatrixShape shape = {matrices, 1, 1, 1, false, false};
  for (size_t i = 0; i < 2; ++i) {
    const auto& dims = op.inputs[i].shape();
    const Labels& labels = equation.operands[i];
    if (dims.unknown_rank() || dims.dim_size() != static_cast<int>(labels.size())) return {};
    for (int axis = 0; axis < dims.dim_size(); ++axis) {
      const Role role = equation.RoleOf(labels[axis]);
      int64_t* extent = nullptr;
      if (role == kFree) extent = i == 0 ? &shape.rows : &shape.columns;
      if (role == kContract && i == 0) extent = &shape.inner;
      if (extent != nullptr) *extent = Product(*extent, dims.dim(axis).size());
    }
  }
  // The kernel hands both to its product with what is left of them first, unless they come the other way round.
  shape.first_transposed = equation.Swapped(equation.operands[0]);
  shape.second_transposed = !equation.Swapped(equation.operands[1]);
  return shape;
}

// Of two operands (2.21, by the allocator, with and without oneDNN): a transposed copy of each operand whose axes are
// not in order, and the product where the output has other axes' order; all are held to the kernel's end. And what the
// product takes.
int64_t Einsum(const SizedOp& op, const CpuKernels& kernels) {
  Equation equation;
  if (op.inputs.size() != 2 || op.outputs.size() != 1 || !equation.Parse(TextAttr(*op.node, "equation"))) return 0;
  int64_t bytes = equation.ResultInOrder() ? 0 : BytesOf(op.outputs[0]);
  for (size_t i = 0; i < 2; ++i) {
    if (!equation.InOrder(equation.operands[i])) bytes += BytesOf(op.inputs[i]);
  }
  const TensorInfo& result = op.outputs[0];
  if (result.shape().unknown_rank() || result.shape().dim_size() != static_cast<int>(equation.result.size())) {
    return bytes;
  }
  int64_t matrices = 1;
  for (size_t i = 0; i < equation.result.size(); ++i) {
    if (equation.RoleOf(equation.result[i]) == kBatch) matrices = Product(matrices, result.shape().dim(i).size());
  }
  return bytes + ProductSums(result.dtype(), ElementsOf(result), matrices, kernels) +
         ProductBlocks(result.dtype(), ShapeOf(equation, op, matrices), kernels);
}

// Computes nothing: hands a tensor on, or tells its shape.
bool ComputesNothing(const NodeDef& node) {
  const std::string& op = node.op();
  return op == "Const" || op == "NoOp" || op == "Shape" || op == "ShapeN" || IsVariableRead(op) ||
         IsViewOfInput(node, 0);
}

}  // namespace

bool HasWorkspace(const NodeDef& node) { return node.op() == "Einsum" || HasKernelWorkspace(node.op()); }

int64_t OpWorkspace(const SizedOp& op, const CpuKernels& kernels) {
  return op.node->op() == "Einsum" ? Einsum(op, kernels) : KernelWorkspace(op, kernels);
}

int64_t CompiledWorkspace(const std::vector<SizedOp>& body) {
  const bool with_input_gradient =
      std::any_of(body.begin(), body.end(), [](const SizedOp& op) { return op.node->op() == "Conv2DBackpropInput"; });
  int64_t bytes = 0;
  for (const SizedOp& op : body) {
    if (op.node->op() == "Conv2DBackpropFilter") bytes = std::max(bytes, FilterGradient(op, with_input_gradient));
  }
  return bytes;
}

bool KnowsCompiledWorkspace(const std::vector<const NodeDef*>& body) {
  std::set<std::string> convolutions;
  for (const NodeDef* node : body) {
    if (ComputesNothing(*node)) continue;
    const std::string& op = node->op();
    const bool convolution = op == "Conv2D" || op == "Conv2DBackpropInput" || op == "Conv2DBackpropFilter";
    if (!convolution || !convolutions.insert(op).second) return false;
  }
  return !convolutions.empty();
}

}  // namespace lms
