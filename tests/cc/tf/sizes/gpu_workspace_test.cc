#include "cc/tf/sizes/gpu_workspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

constexpr tensorflow::DataType kSingle = tensorflow::DT_FLOAT;
constexpr tensorflow::DataType kShort = tensorflow::DT_HALF;
constexpr tensorflow::DataType kBrain = tensorflow::DT_BFLOAT16;
constexpr int64_t kMega = 1000000;

GpuKernels KernelsOf(double capability, bool tf32 = true) {
  return {/*cudnn=*/true, capability, tf32, /*layout_to_come=*/false};
}

// A convolution of square pictures, padded as "SAME".
struct Shape {
  int64_t images, side, channels, filters, filter, stride;
};

class PictureOp {
 public:
  PictureOp(const std::string& type, tensorflow::DataType dtype, const std::string& format, const Shape& shape)
      : op_{&node_, {}, {}} {
    node_.set_op(type);
    const bool first = format == "NCHW";
    const int64_t stride = shape.stride, made = (shape.side + stride - 1) / stride;
    const auto picture = [first, &shape](int64_t side, int64_t channels) {
      return first ? testing::Dims{shape.images, channels, side, side}
                   : testing::Dims{shape.images, side, side, channels};
    };
    const testing::Dims input = picture(shape.side, shape.channels), output = picture(made, shape.filters);
    const testing::Dims filter = {shape.filter, shape.filter, shape.channels, shape.filters};
    const testing::Dims sizes = {4};
    if (type == "Conv2D") {
      op_.inputs = {Tensor(dtype, input), Tensor(dtype, filter)};
      op_.outputs = {Tensor(dtype, output)};
    } else if (type == "Conv2DBackpropInput") {
      op_.inputs = {Tensor(tensorflow::DT_INT32, sizes), Tensor(dtype, filter), Tensor(dtype, output)};
      op_.outputs = {Tensor(dtype, input)};
    } else {
      op_.inputs = {Tensor(dtype, input), Tensor(tensorflow::DT_INT32, sizes), Tensor(dtype, output)};
      op_.outputs = {Tensor(dtype, filter)};
    }
    auto& attr = *node_.mutable_attr();
    attr["data_format"].set_s(format);
    attr["padding"].set_s("SAME");
    for (const int64_t by : first ? testing::Dims{1, 1, stride, stride} : testing::Dims{1, stride, stride, 1}) {
      attr["strides"].mutable_list()->add_i(by);
    }
  }
  GpuWorkspace On(const GpuKernels& kernels) const { return WorkspaceOnGpu(op_, kernels); }
  SizedOp* operator->() { return &op_; }

 private:
  static TensorInfo Tensor(tensorflow::DataType dtype, const testing::Dims& dims) {
    TensorInfo tensor;
    tensor.set_dtype(dtype);
    *tensor.mutable_shape() = testing::Shape("", dims).second.shape();
    return tensor;
  }

  tensorflow::NodeDef node_;
  SizedOp op_;
};

constexpr Shape kEarly = {64, 56, 64, 64, 3, 1}, kStrided = {64, 56, 128, 128, 3, 2}, kLate = {32, 28, 512, 512, 3, 1};
constexpr Shape kWide = {32, 224, 64, 64, 3, 1}, kOnePlace = {64, 56, 64, 256, 1, 1};

struct Measured {
  const char* op;
  tensorflow::DataType dtype;
  const char* format;
  Shape shape;
  double mega;  // by the allocator of an H100
};

TEST(GpuWorkspaceTest, ConvolutionsTakeWhatWasMeasured) {
  const std::vector<Measured> all = {
      {"Conv2D", kSingle, "NCHW", kEarly, 116.0},
      {"Conv2DBackpropInput", kSingle, "NCHW", kEarly, 154.4},
      {"Conv2D", kSingle, "NCHW", kStrided, 302.3},
      {"Conv2DBackpropInput", kSingle, "NCHW", kStrided, 408.7},
      {"Conv2DBackpropFilter", kSingle, "NCHW", kStrided, 310.8},
      {"Conv2D", kSingle, "NCHW", kLate, 121.6},
      {"Conv2DBackpropInput", kSingle, "NCHW", kLate, 196.1},
      {"Conv2DBackpropFilter", kSingle, "NCHW", kLate, 132.2},
      {"Conv2D", kSingle, "NCHW", kWide, 822.4},
      {"Conv2DBackpropInput", kSingle, "NCHW", kWide, 1345.4},
      {"Conv2DBackpropInput", kSingle, "NCHW", kOnePlace, 51.4},
      {"Conv2D", kShort, "NHWC", kStrided, 53.5},
      {"Conv2DBackpropInput", kShort, "NHWC", kStrided, 104.9},
      {"Conv2DBackpropFilter", kShort, "NHWC", kStrided, 61.2},
      {"Conv2DBackpropInput", kShort, "NHWC", kEarly, 25.8},
      {"Conv2DBackpropInput", kShort, "NHWC", kWide, 209.8},
      {"Conv2DBackpropInput", kSingle, "NHWC", kEarly, 51.5},
  };
  for (const Measured& one : all) {
    const auto bytes =
        static_cast<double>(PictureOp(one.op, one.dtype, one.format, one.shape).On(KernelsOf(9.0)).bytes);
    EXPECT_LE(bytes, 1.01 * one.mega * kMega) << one.op << " " << one.format << " " << one.mega;
    EXPECT_GE(bytes, 0.77 * one.mega * kMega) << one.op << " " << one.format << " " << one.mega;
  }
}

TEST(GpuWorkspaceTest, AFilterOfOnePlaceIsAProductOfMatrices) {
  for (const char* op : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}) {
    EXPECT_EQ(PictureOp(op, kSingle, "NHWC", kOnePlace).On(KernelsOf(9.0)).bytes, 0) << op;
  }
  EXPECT_LE(PictureOp("Conv2D", kSingle, "NCHW", kOnePlace).On(KernelsOf(9.0)).bytes, kMega);
}

TEST(GpuWorkspaceTest, CopiesDependOnTensorCores) {
  const PictureOp first("Conv2D", kSingle, "NCHW", kEarly);
  EXPECT_GT(first.On(KernelsOf(9.0)).copied, 100 * kMega);
  EXPECT_EQ(first.On(KernelsOf(9.0, /*tf32=*/false)).copied, 0);
  EXPECT_EQ(first.On(KernelsOf(7.5)).copied, 0);
  const PictureOp half("Conv2D", kShort, "NHWC", kEarly);
  EXPECT_EQ(half.On(KernelsOf(7.5)).copied, 0);
  EXPECT_GT(half.On(KernelsOf(6.1)).copied, 50 * kMega);  // TensorFlow turns it round
  const PictureOp brain("Conv2D", kBrain, "NHWC", kEarly);
  EXPECT_EQ(brain.On(KernelsOf(8.0)).copied, 0);
  EXPECT_GT(brain.On(KernelsOf(7.5)).copied, 50 * kMega);
}

TEST(GpuWorkspaceTest, APlanReckonsWithTheLayoutToCome) {
  GpuKernels planned = KernelsOf(9.0);
  planned.layout_to_come = true;
  const PictureOp first("Conv2D", kSingle, "NCHW", kStrided), last("Conv2D", kSingle, "NHWC", kStrided);
  EXPECT_EQ(last.On(planned).bytes, first.On(KernelsOf(9.0)).bytes);
  const PictureOp half("Conv2D", kShort, "NHWC", kStrided);
  EXPECT_EQ(half.On(planned).bytes, half.On(KernelsOf(9.0)).bytes);
  planned.capability = 7.0;
  EXPECT_EQ(last.On(planned).copied, 0);
}

TEST(GpuWorkspaceTest, WhatIsNotKnownTakesNothing) {
  EXPECT_EQ(PictureOp("Conv2D", kSingle, "NCHW", kEarly).On(GpuKernels()).bytes, 0);  // a device that was plugged in
  PictureOp unknown("Conv2D", kSingle, "NCHW", kEarly);
  unknown->inputs[1].mutable_shape()->set_unknown_rank(true);
  unknown->inputs[1].mutable_shape()->clear_dim();
  EXPECT_EQ(unknown.On(KernelsOf(9.0)).bytes, 0);
  PictureOp bare("Conv2D", kSingle, "NCHW", kEarly);
  bare->inputs.clear();
  EXPECT_EQ(bare.On(KernelsOf(9.0)).bytes, 0);
  tensorflow::NodeDef product;
  product.set_op("MatMul");
  EXPECT_FALSE(HasGpuWorkspace(product));
}

}  // namespace
}  // namespace lms
