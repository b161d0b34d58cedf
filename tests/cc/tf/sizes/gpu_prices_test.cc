#include "cc/tf/sizes/gpu_prices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/tf/sizes/gpu_kernels.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

tensorflow::DeviceProperties Card(const std::string& capability) {
  tensorflow::DeviceProperties device;
  device.set_type("GPU");
  (*device.mutable_environment())["architecture"] = capability;
  return device;
}

tensorflow::OpInfo Reduction(const testing::Dims& dims, const std::vector<int>& axes) {
  tensorflow::OpInfo op;
  op.set_op("Mean");
  *op.add_inputs()->mutable_shape() = testing::Shape("", dims).second.shape();
  tensorflow::Tensor value(tensorflow::DT_INT32, {static_cast<int64_t>(axes.size())});
  for (size_t i = 0; i < axes.size(); ++i) value.flat<int32_t>()(i) = axes[i];
  value.AsProtoTensorContent(op.add_inputs()->mutable_value());
  return op;
}

TEST(GpuPricesTest, ProductsOfFloatRunOnTensorCoresWhereTheyMayBeRounded) {
  EXPECT_EQ(TensorCoreFactor(Card("7.0"), "MatMul", tensorflow::DT_FLOAT), 1);
  EXPECT_EQ(TensorCoreFactor(Card("8.0"), "MatMul", tensorflow::DT_FLOAT), 8);
  EXPECT_EQ(TensorCoreFactor(Card("9.0"), "Conv2D", tensorflow::DT_FLOAT), 16);
  EXPECT_EQ(TensorCoreFactor(Card("9.0"), "Conv2D", tensorflow::DT_HALF), 32);
  EXPECT_EQ(TensorCoreFactor(Card("9.0"), "Conv2D", tensorflow::DT_DOUBLE), 1);
  EXPECT_EQ(TensorCoreFactor(Card("9.0"), "AddV2", tensorflow::DT_FLOAT), 1);
  tensorflow::enable_tensor_float_32_execution(false);
  EXPECT_EQ(TensorCoreFactor(Card("9.0"), "MatMul", tensorflow::DT_FLOAT), 1);
  tensorflow::enable_tensor_float_32_execution(true);
}

TEST(GpuPricesTest, ReductionsArePricedByWhatTheyKeep) {
  const auto card = Card("9.0");
  const double rows = DearerOnGpu(card, Reduction({64, 56, 256}, {2}));
  const double between = DearerOnGpu(card, Reduction({64, 256, 56, 56}, {0, 2, 3}));
  const double columns = DearerOnGpu(card, Reduction({64, 56, 56, 256}, {0, 1, 2}));
  EXPECT_LT(rows, between);
  EXPECT_LT(between, columns);
  EXPECT_EQ(DearerOnGpu(card, Reduction({64, 56, 56, 256}, {-1})), rows);
  EXPECT_EQ(DearerOnGpu(card, Reduction({64, 256, 1, 1}, {0, 2, 3})), columns);
  EXPECT_EQ(DearerOnGpu(card, Reduction({64, 256}, {7})), rows);  // no such axis
  tensorflow::DeviceProperties cpu;
  cpu.set_type("CPU");
  EXPECT_EQ(DearerOnGpu(cpu, Reduction({64, 56, 56, 256}, {0, 1, 2})), 1);
}

TEST(GpuPricesTest, APlanReckonsWithTheLayoutToCome) {
  auto planned = Card("9.0");
  (*planned.mutable_environment())[kRatesGiven] = "1";
  tensorflow::OpInfo mean = Reduction({64, 56, 56, 256}, {0, 1, 2});
  mean.mutable_inputs(0)->set_dtype(tensorflow::DT_FLOAT);
  EXPECT_EQ(DearerOnGpu(planned, mean), DearerOnGpu(Card("9.0"), Reduction({64, 256, 56, 56}, {0, 2, 3})));
  mean.mutable_inputs(0)->set_dtype(tensorflow::DT_HALF);
  EXPECT_EQ(DearerOnGpu(planned, mean), DearerOnGpu(Card("9.0"), mean));
}

TEST(GpuPricesTest, TheGradientOfABiasIsDearWithChannelsLast) {
  tensorflow::OpInfo op;
  op.set_op("BiasAddGrad");
  (*op.mutable_attr())["data_format"].set_s("NCHW");
  const double first = DearerOnGpu(Card("9.0"), op);
  (*op.mutable_attr())["data_format"].set_s("NHWC");
  EXPECT_GT(DearerOnGpu(Card("9.0"), op), 5 * first);
}

}  // namespace
}  // namespace lms
