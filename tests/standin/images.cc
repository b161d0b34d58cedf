#include "tests/standin/images.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/public/session_options.h"

namespace standin {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Which inputs are images, which are the shape of one, which outputs are images.
struct Images {
  std::set<int> inputs, shapes, outputs;
};
const std::map<std::string, Images>& ImageOps() {
  static const auto* const ops =
      new std::map<std::string, Images>{{"Conv2D", {{0}, {}, {0}}},
                                        {"_FusedConv2D", {{0}, {}, {0}}},
                                        {"Conv2DBackpropInput", {{2}, {0}, {0}}},
                                        {"Conv2DBackpropFilter", {{0, 2}, {}, {}}},
                                        {"DepthwiseConv2dNative", {{0}, {}, {0}}},
                                        {"DepthwiseConv2dNativeBackpropInput", {{2}, {0}, {0}}},
                                        {"DepthwiseConv2dNativeBackpropFilter", {{0, 2}, {}, {}}},
                                        {"MaxPool", {{0}, {}, {0}}},
                                        {"MaxPoolGrad", {{0, 1, 2}, {}, {0}}},
                                        {"AvgPool", {{0}, {}, {0}}},
                                        {"AvgPoolGrad", {{1}, {0}, {0}}},
                                        {"Conv3D", {{0}, {}, {0}}},
                                        {"Conv3DBackpropInputV2", {{2}, {0}, {0}}},
                                        {"Conv3DBackpropFilterV2", {{0, 2}, {}, {}}},
                                        {"MaxPool3D", {{0}, {}, {0}}},
                                        {"MaxPool3DGrad", {{0, 1, 2}, {}, {0}}},
                                        {"AvgPool3D", {{0}, {}, {0}}},
                                        {"AvgPool3DGrad", {{1}, {0}, {0}}}};
  return *ops;
}

// Of images, and of volumes: the channels last, and back.
std::vector<int> ChannelsLast(int dims) {
  return dims == 5 ? std::vector<int>{0, 2, 3, 4, 1} : std::vector<int>{0, 2, 3, 1};
}
std::vector<int> ChannelsFirst(int dims) {
  return dims == 5 ? std::vector<int>{0, 4, 1, 2, 3} : std::vector<int>{0, 3, 1, 2};
}

TensorShape Permuted(const TensorShape& shape, const std::vector<int>& order) {
  TensorShape permuted;
  for (const int dim : order) permuted.AddDim(shape.dim_size(dim));
  return permuted;
}

// Each image, rows x columns elements of T, with rows and columns exchanged.
template <typename T>
void Transpose(const void* from, void* to, int64_t images, int64_t rows, int64_t columns) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (int64_t image = 0; image < images; ++image, in += rows * columns, out += rows * columns) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) out[column * rows + row] = in[row * columns + column];
    }
  }
}
void Transpose(const Tensor& from, Tensor* to, int64_t rows, int64_t columns) {
  const void* const in = from.data();
  void* const out = to->data();
  const int64_t images = from.dim_size(0);
  switch (tensorflow::DataTypeSize(from.dtype())) {
    case 1:
      return Transpose<int8_t>(in, out, images, rows, columns);
    case 2:
      return Transpose<int16_t>(in, out, images, rows, columns);
    case 4:
      return Transpose<int32_t>(in, out, images, rows, columns);
    default:
      return Transpose<int64_t>(in, out, images, rows, columns);
  }
}

// A CPU device of its own: its kernels take their workspace from the host.
tensorflow::Device* Host() {
  static tensorflow::Device* const device =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:localhost/replica:0/task:0")
          .release();
  return device;
}

void PutChannelsLast(int dims, NodeDef* node) {
  const std::vector<int> order = ChannelsLast(dims);
  auto& attributes = *node->mutable_attr();
  attributes["data_format"].set_s(dims == 5 ? "NDHWC" : "NHWC");
  for (const char* name : {"strides", "dilations", "ksize", "explicit_paddings"}) {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.list().i_size() == 0) continue;
    auto* const values = found->second.mutable_list()->mutable_i();
    const std::vector<int64_t> old(values->begin(), values->end());
    const int of_dimension = static_cast<int>(old.size()) / dims;  // 1, or 2 of paddings
    for (int dim = 0; dim < dims; ++dim) {
      for (int i = 0; i < of_dimension; ++i) (*values)[dim * of_dimension + i] = old[order[dim] * of_dimension + i];
    }
  }
}

class ImageKernel : public tensorflow::OpKernel {
 public:
  // `dims`: of tensors with the channels first; 0 where they are last.
  ImageKernel(OpKernelConstruction* construction, const Images& images, int dims)
      : OpKernel(construction), images_(images), dims_(dims) {
    NodeDef node = construction->def();
    if (dims > 0) PutChannelsLast(dims, &node);
    std::shared_ptr<const tensorflow::NodeProperties> properties;
    OP_REQUIRES_OK(construction,
                   tensorflow::NodeProperties::CreateFromNodeDef(node, tensorflow::OpRegistry::Global(), &properties));
    tensorflow::OpKernel* kernel = nullptr;
    OP_REQUIRES_OK(construction, CreateOpKernel(tensorflow::DeviceType(tensorflow::DEVICE_CPU), Host(),
                                                Host()->GetAllocator(tensorflow::AllocatorAttributes()),
                                                construction->function_library(), Host()->resource_manager(),
                                                properties, construction->graph_def_version(), &kernel));
    kernel_.reset(kernel);
  }

  void Compute(OpKernelContext* context) override {
    std::vector<Tensor> inputs;
    for (int i = 0; i < context->num_inputs(); ++i) inputs.push_back(Input(*context, i));
    std::vector<tensorflow::TensorValue> values;
    for (Tensor& input : inputs) values.emplace_back(&input);
    const std::vector<tensorflow::AllocatorAttributes> attributes(num_outputs());
    OpKernelContext::Params params;
    params.step_id = context->step_id();
    params.op_kernel = kernel_.get();
    params.device = Host();
    params.inputs = values;
    params.output_attr_array = attributes.data();
    params.resource_manager = Host()->resource_manager();
    OpKernelContext host(&params, num_outputs());
    kernel_->Compute(&host);
    OP_REQUIRES_OK(context, host.status());
    for (int i = 0; i < num_outputs(); ++i) SetOutput(context, i, host.mutable_output(i));
    for (int i = 0; i < num_outputs(); ++i) delete host.release_output(i).tensor;
  }

 private:
  Tensor Input(const OpKernelContext& context, int index) const {
    const Tensor& input = const_cast<OpKernelContext&>(context).input(index);
    if (dims_ == 0) return input;
    const std::vector<int> order = ChannelsLast(dims_);
    if (images_.inputs.count(index) > 0) {
      Tensor last(input.dtype(), Permuted(input.shape(), order));
      const int64_t channels = input.dim_size(1);
      Transpose(input, &last, channels, PerImage(input) / std::max<int64_t>(1, channels));
      return last;
    }
    if (images_.shapes.count(index) > 0 && input.NumElements() == dims_) {
      Tensor last(input.dtype(), input.shape());
      const auto bytes = static_cast<size_t>(tensorflow::DataTypeSize(input.dtype()));
      const char* const from = static_cast<const char*>(input.data());
      for (int dim = 0; dim < dims_; ++dim) {
        std::memcpy(static_cast<char*>(last.data()) + dim * bytes, from + order[dim] * bytes, bytes);
      }
      return last;
    }
    return input;
  }

  void SetOutput(OpKernelContext* context, int index, const Tensor* last) const {
    if (last == nullptr) return;
    const bool transposed = dims_ > 0 && images_.outputs.count(index) > 0;
    const TensorShape shape = transposed ? Permuted(last->shape(), ChannelsFirst(dims_)) : last->shape();
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(index, shape, &output));
    if (transposed) {
      const int64_t channels = last->dim_size(dims_ - 1);
      Transpose(*last, output, PerImage(*last) / std::max<int64_t>(1, channels), channels);
    } else if (last->TotalBytes() > 0) {
      std::memcpy(output->data(), last->data(), last->TotalBytes());
    }
  }

  static int64_t PerImage(const Tensor& images) {
    return images.NumElements() / std::max<int64_t>(1, images.dim_size(0));
  }

  const Images images_;
  const int dims_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
};

}  // namespace

tensorflow::OpKernel* MakeImageKernel(OpKernelConstruction* construction) {
  const auto found = ImageOps().find(construction->def().op());
  std::string format;
  if (found == ImageOps().end() || !construction->GetAttr("data_format", &format).ok()) return nullptr;
  static const auto* const first = new std::map<std::string, int>{{"NHWC", 0}, {"NDHWC", 0}, {"NCHW", 4}, {"NCDHW", 5}};
  const auto dims = first->find(format);
  if (dims == first->end()) return nullptr;
  return new ImageKernel(construction, found->second, dims->second);
}

}  // namespace standin
