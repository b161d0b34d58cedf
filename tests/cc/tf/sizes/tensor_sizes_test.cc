#include "cc/tf/sizes/tensor_sizes.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>

#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";

tensorflow::DeviceProperties Device(const std::string& type, int64_t kilobytes_per_second) {
  tensorflow::DeviceProperties device;
  device.set_type(type);
  device.set_frequency(1000);
  device.set_num_cores(50);
  device.set_bandwidth(kilobytes_per_second);
  (*device.mutable_environment())["architecture"] = "6.0";
  return device;
}

double CostOf(const tensorflow::grappler::GrapplerItem& item, const std::string& place,
              const tensorflow::DeviceProperties& device) {
  tensorflow::grappler::VirtualCluster cluster(
      std::unordered_map<std::string, tensorflow::DeviceProperties>{{place, device}});
  TensorSizes sizes(item, 32);
  EXPECT_TRUE(sizes.Infer().ok());
  sizes.EstimateCosts(&cluster);
  return sizes.Of("y").cost_us;
}

// Of an op that TensorFlow's estimator does not know, and that reads `rows` x 4,000 bytes and writes 4.
double CostUs(const std::string& place, const tensorflow::DeviceProperties& device, int64_t rows = 2500) {
  testing::GraphBuilder graph;
  graph.Feed("x", {rows, 1000});
  graph.Float("y", "L2Loss", {"x"})->set_device(place);
  graph.Fetch("y");
  return CostOf(graph.item(), place, device);
}

TEST(TensorSizes, AGpuMovesTheBytesOfAnUnknownOpAtItsOwnBandwidth) {
  // 10 MB at 250 GB/s is 40 us; at twice that, 20 us.
  EXPECT_NEAR(CostUs(kGpu, Device("GPU", 250000000)), 40, 0.01);
  EXPECT_NEAR(CostUs(kGpu, Device("GPU", 500000000)), 20, 0.01);
}

TEST(TensorSizes, ACpuAndAGpuOfWhichNothingIsKnownMoveTenGigabytesPerSecond) {
  // 10 MB at 10 GB/s: 1,000 us.
  EXPECT_NEAR(CostUs(testing::kCpu, Device("CPU", 500000000)), 1000, 0.01);
  EXPECT_NEAR(CostUs(kGpu, Device("GPU", 0)), 1000, 0.01);
}

TEST(TensorSizes, AKernelOnAGpuHasToBeLaunched) {
  // 12 kB: 0.048 us at 250 GB/s, less than a launch; 1.2 us at the 10 GB/s of a CPU, which launches nothing.
  EXPECT_DOUBLE_EQ(CostUs(kGpu, Device("GPU", 250000000), 3), 6);
  EXPECT_NEAR(CostUs(testing::kCpu, Device("CPU", 500000000), 3), 1.2, 0.01);
  // What only hands on its input has no kernel.
  testing::GraphBuilder graph;
  graph.Feed("x", {10});
  graph.Float("y", "Identity", {"x"})->set_device(kGpu);
  graph.Fetch("y");
  EXPECT_LT(CostOf(graph.item(), kGpu, Device("GPU", 250000000)), 1);
}

// Of a product of two matrices of 4,096 x 4,096.
double ProductUs(const std::string& place, const tensorflow::DeviceProperties& device, tensorflow::DataType type) {
  testing::GraphBuilder graph;
  for (const char* operand : {"a", "b"}) {
    graph.Add(operand, "Placeholder", {}, {testing::Type("dtype", type), testing::Shape("shape", {4096, 4096})});
    graph.item().feed.emplace_back(operand, tensorflow::Tensor());
  }
  graph.Add("y", "MatMul", {"a", "b"}, {testing::Type("T", type)})->set_device(place);
  graph.Fetch("y");
  return CostOf(graph.item(), place, device);
}

TEST(TensorSizes, ProductsRunOnTensorCoresWhereTheGpuHasThem) {
  using tensorflow::DT_BFLOAT16;
  using tensorflow::DT_FLOAT;
  using tensorflow::DT_HALF;
  // 50 multiprocessors x 64 lanes x 2 at 1 GHz: 6.4 TFLOP/s; 2 x 4096^3 operations: 21,475 us. The rest is for moving
  // 100 to 200 MB at 10 TB/s.
  tensorflow::DeviceProperties gpu = Device("GPU", 10000000000);
  const auto product = [&gpu](const char* capability, tensorflow::DataType type) {
    (*gpu.mutable_environment())["architecture"] = capability;
    return ProductUs(kGpu, gpu, type);
  };
  const double plain = 21475;
  EXPECT_NEAR(product("6.0", DT_FLOAT), plain, 30);
  EXPECT_NEAR(product("7.0", DT_FLOAT), plain, 30);
  // As TensorFloat-32.
  EXPECT_NEAR(product("8.0", DT_FLOAT), plain / 8, 30);
  EXPECT_NEAR(product("9.0", DT_FLOAT), plain / 16, 30);
  EXPECT_NEAR(product("10.0", DT_FLOAT), plain / 32, 30);
  EXPECT_NEAR(product("12.0", DT_FLOAT), plain / 2, 30);
  EXPECT_NEAR(product("6.0", DT_HALF), plain, 30);
  EXPECT_NEAR(product("7.0", DT_BFLOAT16), plain, 30);
  EXPECT_NEAR(product("7.5", DT_HALF), plain / 8, 30);
  EXPECT_NEAR(product("8.0", DT_HALF), plain / 16, 30);
  EXPECT_NEAR(product("8.0", DT_BFLOAT16), plain / 16, 30);
  EXPECT_NEAR(product("8.9", DT_BFLOAT16), plain / 4, 30);
  EXPECT_NEAR(product("9.0", DT_HALF), plain / 32, 30);
  EXPECT_NEAR(product("10.0", DT_HALF), plain / 64, 30);
  EXPECT_NEAR(product("12.0", DT_HALF), plain / 4, 30);
  // Rates that are given stay as they are, and a CPU has none of this.
  (*gpu.mutable_environment())["lms_rates"] = "given";
  EXPECT_NEAR(product("8.0", DT_HALF), plain, 30);
  tensorflow::DeviceProperties cpu = Device("CPU", 10000000000);
  const double on_cpu = ProductUs(testing::kCpu, cpu, DT_HALF);
  (*cpu.mutable_environment())["architecture"] = "8.0";
  EXPECT_DOUBLE_EQ(ProductUs(testing::kCpu, cpu, DT_HALF), on_cpu);
}

}  // namespace
}  // namespace lms
