#include "cc/tf/sizes/kernel_workspace.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cc/tf/graph/small_tensor.h"
#include "cc/tf/sizes/product_workspace.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

bool Has(const SizedOp& op, size_t inputs, size_t outputs) {
  return op.inputs.size() >= inputs && op.outputs.size() >= outputs;
}

bool RankIs(const TensorInfo& tensor, int rank) {
  return !tensor.shape().unknown_rank() && tensor.shape().dim_size() == rank;
}

bool ChannelsFirst(const NodeDef& node) { return TextAttr(node, "data_format").rfind("NC", 0) == 0; }

// Both gradients of a convolution multiply matrices of patches: of one image after the other, or of so many at a time
// as make up 30 MB (of volumes: the processor's largest cache), were there ever so few. The sizes are numbers of
// elements.
struct PatchSizes {
  int64_t patches;  // of one image: places in the output x elements of a filter
  int64_t work;     // that, and the two other matrices

  PatchSizes(const TensorInfo& filter, const TensorInfo& gradient) {
    const auto& f = filter.shape();
    const auto& g = gradient.shape();
    const int last = f.dim_size() - 1;
    int64_t places = 1;
    int64_t filter_elements = f.dim(last - 1).size();
    for (int i = 0; i + 1 < last; ++i) {
      places = Product(places, g.dim(i + 1).size());
      filter_elements = Product(filter_elements, f.dim(i).size());
    }
    patches = Product(places, filter_elements);
    work = patches + Product(places, g.dim(last).size()) + Product(filter_elements, g.dim(last).size());
  }

  int64_t Bytes(int64_t images, int64_t size) const { return Product(Product(images, patches), size); }
  int64_t ImagesAtATime(int64_t size, int64_t working_set = int64_t{30} << 20) const {
    return (working_set / size + work - 1) / work;
  }
};

// Whose filter and gradient of the output are given; {} where it is not TensorFlow's own kernel that runs.
bool OwnConvolution(const SizedOp& op, int rank, const TensorInfo& filter, const TensorInfo& gradient,
                    const CpuKernels& kernels) {
  if (kernels.OneDnn(gradient.dtype()) || !RankIs(filter, rank) || !RankIs(gradient, rank)) return false;
  return tensorflow::DataTypeSize(gradient.dtype()) > 0 && !ChannelsFirst(*op.node) &&
         PatchSizes(filter, gradient).work > 0;
}

int64_t FilterGradient(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 3, 1) || !OwnConvolution(op, 4, op.outputs[0], op.inputs[2], kernels)) return 0;
  const PatchSizes sizes(op.outputs[0], op.inputs[2]);
  const int64_t size = tensorflow::DataTypeSize(op.inputs[2].dtype());
  return sizes.Bytes(sizes.ImagesAtATime(size), size);
}

// One image at a time where there is but one, or where each thread has enough to do with that (256 KB).
int64_t InputGradient(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 3, 1) || !OwnConvolution(op, 4, op.inputs[1], op.inputs[2], kernels)) return 0;
  const PatchSizes sizes(op.inputs[1], op.inputs[2]);
  const int64_t size = tensorflow::DataTypeSize(op.inputs[2].dtype());
  const bool one = op.inputs[2].shape().dim(0).size() == 1 ||
                   sizes.work / std::max(kernels.threads, 1) >= (int64_t{256} << 10) / size;
  return sizes.Bytes(one ? 1 : sizes.ImagesAtATime(size), size);
}

// Of a volume, or of so many as fill the cache. None where that is too much beside the op's tensors: then another
// kernel runs.
int64_t VolumeGradient(const SizedOp& op, const TensorInfo& input, const TensorInfo& filter, bool one,
                       const CpuKernels& kernels) {
  const TensorInfo& gradient = op.inputs[2];
  if (!OwnConvolution(op, 5, filter, gradient, kernels)) return 0;
  constexpr int64_t kMostShare = 25;
  const PatchSizes sizes(filter, gradient);
  const int64_t size = tensorflow::DataTypeSize(gradient.dtype());
  const int64_t patches = Product(one ? 1 : sizes.ImagesAtATime(size, kernels.l3_bytes), sizes.patches);
  const int64_t beside = std::max<int64_t>(ElementsOf(input) + ElementsOf(filter) + ElementsOf(gradient), 1);
  return patches / beside > kMostShare ? 0 : Product(patches, size);
}

int64_t VolumeFilterGradient(const SizedOp& op, const CpuKernels& kernels) {
  return Has(op, 3, 1) ? VolumeGradient(op, op.inputs[0], op.outputs[0], /*one=*/false, kernels) : 0;
}

int64_t VolumeInputGradient(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 3, 1)) return 0;
  const auto& gradient = op.inputs[2].shape();
  const bool one = gradient.dim_size() > 0 && gradient.dim(0).size() == 1;
  return VolumeGradient(op, op.outputs[0], op.inputs[1], one, kernels);
}

bool HasStrides(const NodeDef& node) {
  const std::vector<int64_t> strides = IntsAttr(node, "strides");
  return std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 1; });
}

// By oneDNN with filters of one place, whose sums are in float: for each thread an image of them, and with strides the
// places of the input that count (AVX512_CORE; 1 to 4 threads, strides of 1 and 2, 20 to 96 channels). Larger filters
// have kernels that add up in registers.
int64_t ConvolutionSums(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 2, 1) || ChannelsFirst(*op.node)) return 0;
  const TensorInfo& filter = op.inputs[1];
  const TensorInfo& output = op.outputs[0];
  if (!kernels.SumsInFloat(output.dtype()) || !RankIs(filter, 4) || !RankIs(output, 4)) return 0;
  const auto& f = filter.shape();
  const auto& out = output.shape();
  if (f.dim(0).size() != 1 || f.dim(1).size() != 1) return 0;
  const int64_t place = out.dim(3).size() * sizeof(float) +
                        (HasStrides(*op.node) ? f.dim(2).size() * tensorflow::DataTypeSize(output.dtype()) : 0);
  const int64_t images = std::min<int64_t>(std::max(kernels.threads, 1), out.dim(0).size());
  return Product(images, Product(Product(out.dim(1).size(), out.dim(2).size()), place));
}

// By oneDNN with AMX: what a thread copies its part of the input to, and its tiles. With filters of one place to some
// hundred bytes (1 and 2 threads, strides of 1 and 2, 64 to 1,024 channels). Larger ones copy as much as oneDNN's
// choice of blocks makes of it: 23 shapes took 0.02 to 0.5 MB for each thread, and three first layers (1 to 8 channels,
// filters of 5 and 7 places a side, strides of 2) 0.1, 1.5 and 2.7 MB.
int64_t ConvolutionTiles(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 2, 1) || ChannelsFirst(*op.node)) return 0;
  const TensorInfo& filter = op.inputs[1];
  const TensorInfo& output = op.outputs[0];
  if (!kernels.amx_bfloat16 || output.dtype() != tensorflow::DT_BFLOAT16) return 0;
  if (!RankIs(filter, 4) || !RankIs(output, 4)) return 0;
  constexpr int64_t kPage = 4096, kCopied = int64_t{256} << 10;
  const auto& f = filter.shape();
  const auto& out = output.shape();
  int64_t copied = 0;
  if (f.dim(0).size() != 1 || f.dim(1).size() != 1) {
    copied = kCopied;
  } else if (HasStrides(*op.node)) {
    copied = Product(Product(out.dim(1).size(), out.dim(2).size()), f.dim(2).size() * 2);
  }
  return Product(std::max(kernels.threads, 1), copied + 3 * kPage) + (copied > 0 ? 4 : 2) * kPage;
}

int64_t ChannelsLastConvolution(const SizedOp& op, const CpuKernels& kernels) {
  return ConvolutionSums(op, kernels) + ConvolutionTiles(op, kernels);
}

// oneDNN's kernel, where channels come first: the input and the output with channels last.
int64_t Convolution(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 2, 1)) return 0;
  if (!ChannelsFirst(*op.node)) return ChannelsLastConvolution(op, kernels);
  if (!kernels.onednn_float || op.inputs[0].dtype() != tensorflow::DT_FLOAT) return 0;
  return BytesOf(op.inputs[0]) + BytesOf(op.outputs[0]);
}

bool IsTrue(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found != node.attr().end() && found->second.b();
}

// Products of half and bfloat16 are computed in float.
int64_t MatrixProduct(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 2, 1)) return 0;
  const DataType type = op.inputs[0].dtype();
  const bool short_floats = type == tensorflow::DT_HALF || type == tensorflow::DT_BFLOAT16;
  const bool batched = op.node->op() == "BatchMatMul" || op.node->op() == "BatchMatMulV2";
  if (op.inputs[1].dtype() != type) return 0;
  // With a bias it is another kernel of oneDNN's, which adds up in float on every processor. Of half there is none but
  // oneDNN's reference, which takes nothing, and a hundred times as long.
  constexpr int64_t kLine = 128;
  if (kernels.OneDnn(type) && short_floats && op.node->op() == "_FusedMatMul") {
    if (type == tensorflow::DT_HALF) return 0;
    return Product(ElementsOf(op.outputs[0]), sizeof(float)) + kLine;
  }
  if (kernels.OneDnn(type) && (short_floats || batched)) {
    const auto& result = op.outputs[0].shape();
    const auto& first = op.inputs[0].shape();
    if (result.unknown_rank() || result.dim_size() < 2 || first.unknown_rank() || first.dim_size() < 2) return 0;
    MatrixShape shape;
    for (int i = 0; i + 2 < result.dim_size(); ++i) shape.matrices = Product(shape.matrices, result.dim(i).size());
    shape.rows = result.dim(result.dim_size() - 2).size();
    shape.columns = result.dim(result.dim_size() - 1).size();
    shape.first_transposed = IsTrue(*op.node, batched ? "adj_x" : "transpose_a");
    shape.second_transposed = IsTrue(*op.node, batched ? "adj_y" : "transpose_b");
    shape.inner = first.dim(first.dim_size() - (shape.first_transposed ? 2 : 1)).size();
    return ProductSums(type, ElementsOf(op.outputs[0]), shape.matrices, kernels) + ProductBlocks(type, shape, kernels);
  }
  if (!short_floats) return 0;
  const int64_t elements = ElementsOf(op.inputs[0]) + ElementsOf(op.inputs[1]) + ElementsOf(op.outputs[0]);
  return Product(elements, sizeof(float));
}

// oneDNN notes where in its window each maximum was.
int64_t MaxPool(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 1, 1) || !kernels.OneDnn(op.inputs[0].dtype())) return 0;
  int64_t window = 1;
  for (const int64_t side : IntsAttr(*op.node, "ksize")) window = Product(window, side);
  return Product(ElementsOf(op.outputs[0]), window < 256 ? 1 : 4);
}

// The result once more, with the place of each maximum as an int64. Where nobody reads the result afterwards TensorFlow
// takes its storage instead, which is not known here.
int64_t MaxPoolGrad(const SizedOp& op, const CpuKernels& /*kernels*/) {
  if (!Has(op, 3, 1)) return 0;
  return BytesOf(op.inputs[1]) + Product(ElementsOf(op.inputs[1]), sizeof(int64_t));
}

// Where channels come first, what is read and made also with channels last.
int64_t BatchNorm(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 1, 1) || kernels.OneDnn(op.inputs[0].dtype()) || !ChannelsFirst(*op.node)) return 0;
  return 2 * BytesOf(op.inputs[0]);
}

// Short floats: the gradient in float as well. TensorFlow has its own kernel of half run on every processor.
int64_t BatchNormGrad(const SizedOp& op, const CpuKernels& kernels) {
  if (!Has(op, 2, 1)) return 0;
  const DataType type = op.inputs[1].dtype();
  if (type != tensorflow::DT_HALF && kernels.OneDnn(type)) return 0;
  const bool wide = type == tensorflow::DT_FLOAT;
  return (wide ? 0 : Product(ElementsOf(op.inputs[1]), sizeof(float))) +
         (ChannelsFirst(*op.node) ? 3 * BytesOf(op.inputs[1]) : 0);
}

// Kernels know up to three runs of axes, reduced and kept in turn. With more they reduce a transposed copy.
int64_t Reduction(const SizedOp& op, const CpuKernels& /*kernels*/) {
  if (!Has(op, 2, 1)) return 0;
  const std::optional<std::vector<bool>> runs = ReductionRuns(op.inputs[0], op.inputs[1]);
  return runs && runs->size() > 3 ? BytesOf(op.inputs[0]) : 0;
}

int64_t CopyOfInput(const SizedOp& op, const CpuKernels& /*kernels*/) {
  return Has(op, 1, 1) ? BytesOf(op.inputs[0]) : 0;
}

// A number for each example, beside its loss.
int64_t CrossEntropy(const SizedOp& op, const CpuKernels& /*kernels*/) {
  return Has(op, 2, 2) ? BytesOf(op.outputs[0]) : 0;
}

// How many devices reduce together; 0 where that is not known.
int64_t DevicesOf(const SizedOp& op) {
  const auto attr = op.node->attr().find("group_size");
  if (attr != op.node->attr().end()) return attr->second.i();
  tensorflow::Tensor size;
  if (op.inputs.size() < 2 || !op.inputs[1].has_value() || !ReadSmallTensor(op.inputs[1].value(), 1, &size)) return 0;
  return size.NumElements() == 1 && size.dtype() == tensorflow::DT_INT32 ? size.flat<int32_t>()(0) : 0;
}

// In a ring: what the other devices send to be added up, in parts, of which one's own is the device's itself. All are
// there from the beginning to the end.
int64_t RingReduction(const SizedOp& op, const CpuKernels& /*kernels*/) {
  if (!Has(op, 1, 1)) return 0;
  const int64_t bytes = BytesOf(op.inputs[0]), devices = DevicesOf(op);
  return devices > 0 ? bytes - bytes / devices : bytes;
}

using Rule = int64_t (*)(const SizedOp&, const CpuKernels&);

const std::unordered_map<std::string, Rule>& Rules() {
  static const auto* const rules = new std::unordered_map<std::string, Rule>{
      {"Conv2D", Convolution},
      {"Conv2DBackpropFilter", FilterGradient},
      {"Conv2DBackpropInput", InputGradient},
      {"Conv3DBackpropFilterV2", VolumeFilterGradient},
      {"Conv3DBackpropInputV2", VolumeInputGradient},
      {"_FusedConv2D", ChannelsLastConvolution},
      {"MatMul", MatrixProduct},
      {"_FusedMatMul", MatrixProduct},
      {"BatchMatMul", MatrixProduct},
      {"BatchMatMulV2", MatrixProduct},
      {"MaxPool", MaxPool},
      {"MaxPool3D", MaxPool},
      {"MaxPoolGrad", MaxPoolGrad},
      {"FusedBatchNorm", BatchNorm},
      {"FusedBatchNormV2", BatchNorm},
      {"FusedBatchNormV3", BatchNorm},
      {"FusedBatchNormGrad", BatchNormGrad},
      {"FusedBatchNormGradV2", BatchNormGrad},
      {"FusedBatchNormGradV3", BatchNormGrad},
      {"Sum", Reduction},
      {"Mean", Reduction},
      {"Max", Reduction},
      {"Min", Reduction},
      {"Prod", Reduction},
      {"All", Reduction},
      {"Any", Reduction},
      {"MirrorPadGrad", CopyOfInput},
      {"CollectiveReduce", RingReduction},
      {"CollectiveReduceV2", RingReduction},
      {"CollectiveReduceV3", RingReduction},
      {"SoftmaxCrossEntropyWithLogits", CrossEntropy},
      {"SparseSoftmaxCrossEntropyWithLogits", CrossEntropy},
  };
  return *rules;
}

}  // namespace

bool HasKernelWorkspace(const std::string& op) { return Rules().count(op) > 0; }

int64_t KernelWorkspace(const SizedOp& op, const CpuKernels& kernels) {
  const auto rule = Rules().find(op.node->op());
  return rule == Rules().end() ? 0 : rule->second(op, kernels);
}

}  // namespace lms
