// A CPU whose memory is a pool of a hard limit, in a cluster of its own.

#ifndef LMS_TESTS_CC_TF_CPU_POOL_DEVICE_H_
#define LMS_TESTS_CC_TF_CPU_POOL_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/pool_allocator.h"
#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tensorflow/core/platform/numa.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {

class PooledCpu {
 public:
  explicit PooledCpu(int64_t limit_bytes)
      : pool_(std::make_unique<tensorflow::BasicCPUAllocator>(tensorflow::port::kNUMANoAffinity,
                                                              std::vector<tensorflow::SubAllocator::Visitor>(),
                                                              std::vector<tensorflow::SubAllocator::Visitor>()),
              limit_bytes, "pool", Growing()),
        device_(&pool_) {
    devices_.AddDevice(&device_);
    cluster_ = std::make_unique<tensorflow::grappler::VirtualCluster>(&devices_);
  }

  tensorflow::BFCAllocator* pool() const { return &pool_; }
  tensorflow::grappler::Cluster* cluster() const { return cluster_.get(); }
  // Given back with what is returned.
  std::unique_ptr<void, std::function<void(void*)>> Allocate(int64_t bytes) const {
    return {pool_.AllocateRaw(64, bytes), [this](void* pointer) { pool_.DeallocateRaw(pointer); }};
  }

 private:
  class PoolDevice : public tensorflow::Device {
   public:
    explicit PoolDevice(tensorflow::Allocator* pool) : Device(tensorflow::Env::Default(), Attributes()), pool_(pool) {}
    tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes /*attributes*/) override { return pool_; }
    absl::Status Sync() override { return absl::OkStatus(); }

   private:
    static tensorflow::DeviceAttributes Attributes() {
      tensorflow::DeviceAttributes attributes;
      attributes.set_name(kCpu);
      attributes.set_device_type("CPU");
      return attributes;
    }
    tensorflow::Allocator* pool_;
  };

  static tensorflow::BFCAllocator::Options Growing() {
    tensorflow::BFCAllocator::Options options;
    options.allow_growth = true;
    options.allow_retry_on_failure = false;
    return options;
  }

  mutable tensorflow::BFCAllocator pool_;
  PoolDevice device_;
  tensorflow::DeviceSet devices_;
  std::unique_ptr<tensorflow::grappler::VirtualCluster> cluster_;
};

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_CPU_POOL_DEVICE_H_
