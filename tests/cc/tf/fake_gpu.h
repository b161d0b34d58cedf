// A device that kernels take for a GPU: its copies end later, in another thread, when the test says so.
//
// Device memory and pinned memory are the host's, counted apart. Thread-safety: as the kernels need it.

#ifndef LMS_TESTS_CC_TF_FAKE_GPU_H_
#define LMS_TESTS_CC_TF_FAKE_GPU_H_

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"

namespace lms {

// Counts what is allocated through it; fails where more than `most` would be.
class CountedMemory : public tensorflow::Allocator {
 public:
  std::string Name() override { return "counted"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override {
    if (in_use_ + static_cast<int64_t>(bytes) > most && refused) {
      const std::function<void()> now = refused;  // which may take itself away
      now();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (in_use_ + static_cast<int64_t>(bytes) > most) return nullptr;
    void* const pointer = tensorflow::cpu_allocator_base()->AllocateRaw(alignment, bytes);
    sizes_[pointer] = static_cast<int64_t>(bytes);
    in_use_ += static_cast<int64_t>(bytes);
    return pointer;
  }
  void DeallocateRaw(void* pointer) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_use_ -= sizes_[pointer];
    sizes_.erase(pointer);
    tensorflow::cpu_allocator_base()->DeallocateRaw(pointer);
  }
  int64_t in_use() const { return in_use_; }

  int64_t most = int64_t{1} << 40;
  std::function<void()> refused;  // is called before an allocation of more is, and may make room

 private:
  std::mutex mutex_;
  std::map<void*, int64_t> sizes_;
  std::atomic<int64_t> in_use_{0};
};

// Does one copy after the other in a thread of its own.
class FakeStream : public tensorflow::DeviceContext {
 public:
  FakeStream() : thread_([this] { Run(); }) {}
  ~FakeStream() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      held_ = false;
    }
    changed_.notify_all();
    thread_.join();
  }

  void CopyCPUTensorToDevice(const tensorflow::Tensor* cpu_tensor, tensorflow::Device*,
                             tensorflow::Tensor* device_tensor, tensorflow::StatusCallback done,
                             bool sync_dst_compute) const override {
    const_cast<FakeStream*>(this)->ordered_ = sync_dst_compute;
    const_cast<FakeStream*>(this)->Add(cpu_tensor, device_tensor, std::move(done));
  }
  void CopyDeviceTensorToCPU(const tensorflow::Tensor* device_tensor, absl::string_view, tensorflow::Device*,
                             tensorflow::Tensor* cpu_tensor, tensorflow::StatusCallback done) override {
    Add(device_tensor, cpu_tensor, std::move(done));
  }

  // Copies stand still until Go.
  void Hold() {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = true;
  }
  void Go() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }
  void FailWith(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = status;
  }
  bool ordered() const { return ordered_; }  // the last copy in waited for the compute stream

 private:
  void Add(const tensorflow::Tensor* from, tensorflow::Tensor* to, tensorflow::StatusCallback done) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      copies_.push_back([this, from, to, done = std::move(done)] {
        absl::Status status;
        {
          const std::lock_guard<std::mutex> failure_lock(mutex_);
          status = failure_;
        }
        if (status.ok()) {
          std::memcpy(const_cast<char*>(to->tensor_data().data()), from->tensor_data().data(), from->TotalBytes());
        }
        done(status);
      });
    }
    changed_.notify_all();
  }
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || (!held_ && !copies_.empty()); });
      if (copies_.empty()) return;
      {
        const std::function<void()> copy = std::move(copies_.front());
        copies_.pop_front();
        lock.unlock();
        copy();
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> copies_;
  bool held_ = false;
  bool stop_ = false;
  std::atomic<bool> ordered_{false};
  absl::Status failure_;
  std::thread thread_;
};

class FakeGpu : public tensorflow::Device {
 public:
  FakeGpu() : Device(tensorflow::Env::Default(), Attributes()) {}

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attributes) override {
    if (!attributes.on_host()) return &memory;
    return attributes.gpu_compatible() ? &pinned : tensorflow::cpu_allocator_base();
  }
  absl::Status Sync() override { return absl::OkStatus(); }

  CountedMemory memory;
  CountedMemory pinned;

 private:
  static tensorflow::DeviceAttributes Attributes() {
    tensorflow::DeviceAttributes attributes;
    attributes.set_name("/job:localhost/replica:0/task:0/device:GPU:0");
    attributes.set_device_type("GPU");
    return attributes;
  }
};

// One run of one op on such a device.
class OpRun {
 public:
  OpRun(FakeGpu* device, FakeStream* stream, tensorflow::NodeDef def, std::vector<tensorflow::Tensor> inputs)
      : inputs_(std::move(inputs)) {
    const tensorflow::OpDef* op = nullptr;
    status_ = tensorflow::OpRegistry::Global()->LookUpOpDef(def.op(), &op);
    if (!status_.ok()) return;
    tensorflow::AddDefaultsToNodeDef(*op, &def);
    kernel_ = tensorflow::CreateOpKernel(tensorflow::DEVICE_GPU, device, device->GetAllocator({}), def,
                                         TF_GRAPH_DEF_VERSION, &status_);
    if (!status_.ok()) return;
    for (tensorflow::Tensor& input : inputs_) values_.emplace_back(&input);
    input_attributes_.resize(values_.size());
    output_attributes_.resize(1);
    output_attributes_[0].set_on_host(kernel_->output_memory_types()[0] == tensorflow::HOST_MEMORY);
    params_.op_kernel = kernel_.get();
    params_.device = device;
    params_.op_device_context = stream;
    params_.inputs = values_;
    params_.input_alloc_attrs = input_attributes_;
    params_.output_attr_array = output_attributes_.data();
    params_.cancellation_manager = &cancellation_;
    context_ = std::make_unique<tensorflow::OpKernelContext>(&params_, 1);
  }

  void Begin() {
    ended_ = promise_.get_future();
    if (!status_.ok()) {
      promise_.set_value();
      return;
    }
    kernel_->AsAsync()->ComputeAsync(context_.get(), [this] { promise_.set_value(); });
  }
  // What the executor does when an op has ended: the inputs go, then the output is passed on.
  absl::Status End(tensorflow::Tensor* output) {
    ended_.wait();
    if (!status_.ok()) return status_;
    inputs_.clear();
    const absl::Status status = context_->status();
    const tensorflow::TensorValue value = context_->release_output(0);
    if (value.tensor != nullptr) {
      if (status.ok() && output != nullptr) *output = *value.tensor;
      delete value.tensor;
    }
    return status;
  }
  absl::Status Run(tensorflow::Tensor* output) {
    Begin();
    return End(output);
  }
  bool Ended() const { return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  tensorflow::CancellationManager* cancellation() { return &cancellation_; }

 private:
  absl::Status status_;
  std::vector<tensorflow::Tensor> inputs_;
  absl::InlinedVector<tensorflow::TensorValue, 4> values_;
  absl::InlinedVector<tensorflow::AllocatorAttributes, 4> input_attributes_;
  std::vector<tensorflow::AllocatorAttributes> output_attributes_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
  tensorflow::CancellationManager cancellation_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
  std::promise<void> promise_;
  std::future<void> ended_;
};

}  // namespace lms

#endif  // LMS_TESTS_CC_TF_FAKE_GPU_H_
