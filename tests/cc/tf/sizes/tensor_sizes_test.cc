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

// Of an op that TensorFlow's estimator does not know, and that reads 996,000 bytes and writes 4,000.
double CostUs(const std::string& place, const tensorflow::DeviceProperties& device) {
  testing::GraphBuilder graph;
  graph.Feed("x", {249, 1000});
  graph.Float("y", "BiasAddGrad", {"x"})->set_device(place);
  graph.Fetch("y");
  tensorflow::grappler::VirtualCluster cluster(
      std::unordered_map<std::string, tensorflow::DeviceProperties>{{place, device}});
  TensorSizes sizes(graph.item(), 32);
  EXPECT_TRUE(sizes.Infer().ok());
  sizes.EstimateCosts(&cluster);
  return sizes.Of("y").cost_us;
}

TEST(TensorSizes, AGpuMovesTheBytesOfAnUnknownOpAtItsOwnBandwidth) {
  // 1 MB at 250 GB/s is 4 us; at twice that, 2 us.
  EXPECT_DOUBLE_EQ(CostUs(kGpu, Device("GPU", 250000000)), 4);
  EXPECT_DOUBLE_EQ(CostUs(kGpu, Device("GPU", 500000000)), 2);
}

TEST(TensorSizes, ACpuAndAGpuOfWhichNothingIsKnownMoveTenGigabytesPerSecond) {
  // 1 MB at 10 GB/s: 100 us.
  EXPECT_DOUBLE_EQ(CostUs(testing::kCpu, Device("CPU", 500000000)), 100);
  EXPECT_DOUBLE_EQ(CostUs(kGpu, Device("GPU", 0)), 100);
}

}  // namespace
}  // namespace lms
