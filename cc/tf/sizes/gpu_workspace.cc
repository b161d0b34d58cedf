#include "cc/tf/sizes/gpu_workspace.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

enum class Kind { kNone, kForward, kInputGradient, kFilterGradient };

Kind KindOf(const std::string& op) {
  if (op == "Conv2D" || op == "Conv3D" || op == "_FusedConv2D" || op == "_FusedConv3D") return Kind::kForward;
  if (op == "Conv2DBackpropInput" || op == "Conv3DBackpropInputV2") return Kind::kInputGradient;
  if (op == "Conv2DBackpropFilter" || op == "Conv3DBackpropFilterV2") return Kind::kFilterGradient;
  return Kind::kNone;
}

// The tensors of a convolution, whichever of its three forms it is.
struct Convolution {
  const TensorInfo* input;
  const TensorInfo* filter;
  const TensorInfo* output;

  Convolution(Kind kind, const SizedOp& op)
      : input(kind == Kind::kInputGradient ? &op.outputs[0] : &op.inputs[0]),
        filter(kind == Kind::kFilterGradient ? &op.outputs[0] : &op.inputs[1]),
        output(kind == Kind::kForward ? &op.outputs[0] : &op.inputs[2]) {}

  bool Known() const {
    const int rank = input->shape().dim_size();
    const auto has_rank = [rank](const TensorInfo* tensor) {
      return !tensor->shape().unknown_rank() && tensor->shape().dim_size() == rank;
    };
    return (rank == 4 || rank == 5) && has_rank(input) && has_rank(filter) && has_rank(output);
  }
};

// The input with one place more wherever padding is uneven: cuDNN pads both sides alike. Its own bytes where that is
// nowhere so.
int64_t PaddedBytes(const Convolution& convolution, bool channels_first, const std::string& padding,
                    const std::vector<int64_t>& strides) {
  const auto& input = convolution.input->shape();
  int64_t elements = 1;
  for (int i = 0; i < input.dim_size(); ++i) {
    const int place = channels_first ? i - 2 : i - 1;  // among the places of an image
    int64_t side = input.dim(i).size();
    if (padding == "SAME" && place >= 0 && place < input.dim_size() - 2 && i < static_cast<int>(strides.size())) {
      const int64_t filter = convolution.filter->shape().dim(place).size();
      const int64_t pad = (convolution.output->shape().dim(i).size() - 1) * strides[i] + filter - side;
      if (pad > 0 && pad % 2 == 1) ++side;
    }
    elements = Product(elements, side);
  }
  return Product(elements, tensorflow::DataTypeSize(convolution.input->dtype()));
}

bool OfOnePlace(const TensorInfo& filter) {
  const auto& shape = filter.shape();
  for (int i = 0; i + 2 < shape.dim_size(); ++i) {
    if (shape.dim(i).size() != 1) return false;
  }
  return true;
}

}  // namespace

bool HasGpuWorkspace(const tensorflow::NodeDef& node) { return KindOf(node.op()) != Kind::kNone; }

GpuWorkspace WorkspaceOnGpu(const SizedOp& op, const GpuKernels& kernels) {
  GpuWorkspace workspace;
  const Kind kind = KindOf(op.node->op());
  const size_t inputs = kind == Kind::kForward ? 2 : 3;
  if (!kernels.cudnn || kind == Kind::kNone || op.inputs.size() < inputs || op.outputs.empty()) return workspace;
  const Convolution convolution(kind, op);
  if (!convolution.Known()) return workspace;
  const tensorflow::DataType dtype = convolution.input->dtype();
  const bool first_here = TextAttr(*op.node, "data_format").rfind("NC", 0) == 0;
  const bool channels_first = first_here || kernels.WillTurn(dtype);
  const std::vector<int64_t> strides = IntsAttr(*op.node, "strides");
  const bool strided = std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 1; });
  const bool one_place = OfOnePlace(*convolution.filter);
  if (one_place && !strided && !channels_first) return workspace;

  const int64_t input = BytesOf(*convolution.input);
  const int64_t padded = PaddedBytes(convolution, first_here, TextAttr(*op.node, "padding"), strides);
  const int64_t filter = BytesOf(*convolution.filter);
  workspace.bytes = filter + (padded > input ? padded : 0);
  const bool tensor_cores = kernels.OnTensorCores(dtype);
  // Without tensor cores cuDNN is given channels first, by copies of TensorFlow's.
  if (channels_first == tensor_cores && !one_place) workspace.copied = padded + BytesOf(*convolution.output) + filter;
  workspace.bytes += workspace.copied + (kind == Kind::kInputGradient ? input : 0);
  return workspace;
}

}  // namespace lms
