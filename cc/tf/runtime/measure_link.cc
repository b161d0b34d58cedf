#include "cc/tf/runtime/measure_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/device.h"

namespace lms {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 3;
constexpr int kSmallRuns = 9;
constexpr int64_t kSmallBytes = 4096;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Copies that run at once, each with the microseconds until it ended.
class Copies {
 public:
  Copies(OpKernelContext* context, int64_t bytes) : context_(context), bytes_(bytes) {}

  absl::Status Allocate() {
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    for (Way* way : {&out_, &in_}) {
      absl::Status status = context_->allocate_temp(tensorflow::DT_INT8, {bytes_}, &way->device);
      if (status.ok()) status = context_->allocate_temp(tensorflow::DT_INT8, {bytes_}, &way->host, pinned);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Microseconds of each way that is asked for.
  absl::Status Run(bool out, bool in) {
    pending_ = (out ? 1 : 0) + (in ? 1 : 0);
    status_ = absl::OkStatus();
    auto* const device = static_cast<tensorflow::Device*>(context_->device());
    tensorflow::DeviceContext* const link = context_->op_device_context();
    start_ = Clock::now();
    if (out) {
      link->CopyDeviceTensorToCPU(&out_.device, "lms_measure_link", device, &out_.host,
                                  [this](const absl::Status& status) { Ended(&out_, status); });
    }
    if (in) {
      link->CopyCPUTensorToDevice(&in_.host, device, &in_.device,
                                  [this](const absl::Status& status) { Ended(&in_, status); });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return pending_ == 0; });
    return status_;
  }

  // Medians over `runs`, in microseconds: {out, in}.
  absl::Status Measure(bool out, bool in, int runs, std::array<double, 2>* times) {
    std::vector<double> outs;
    std::vector<double> ins;
    for (int run = 0; run < runs; ++run) {
      const absl::Status status = Run(out, in);
      if (!status.ok()) return status;
      outs.push_back(out_.microseconds);
      ins.push_back(in_.microseconds);
    }
    *times = {Median(outs), Median(ins)};
    return absl::OkStatus();
  }

 private:
  struct Way {
    Tensor device;
    Tensor host;
    double microseconds = 0;
  };

  void Ended(Way* way, const absl::Status& status) {
    const double microseconds = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
    const std::lock_guard<std::mutex> lock(mutex_);
    way->microseconds = std::max(microseconds, 1e-3);
    if (!status.ok()) status_ = status;
    --pending_;
    ended_.notify_all();  // under the lock: afterwards the waiting thread may destroy this
  }

  OpKernelContext* const context_;
  const int64_t bytes_;
  Way out_;
  Way in_;
  Clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int pending_ = 0;      // guarded by mutex_ while copies run
  absl::Status status_;  // likewise
};

absl::Status Measure(OpKernelContext* context, int64_t bytes, std::array<double, kLinkFigures>* figures) {
  Copies large(context, bytes);
  Copies small(context, kSmallBytes);
  std::array<double, 2> out{};
  std::array<double, 2> in{};
  std::array<double, 2> both{};
  std::array<double, 2> latency{};
  absl::Status status = large.Allocate();
  if (status.ok()) status = small.Allocate();
  if (status.ok()) status = large.Measure(true, true, 1, &both);  // the first touch of the memory does not count
  if (status.ok()) status = large.Measure(true, false, kRuns, &out);
  if (status.ok()) status = large.Measure(false, true, kRuns, &in);
  if (status.ok()) status = large.Measure(true, true, kRuns, &both);
  if (status.ok()) status = small.Measure(true, false, kSmallRuns, &latency);
  const auto size = static_cast<double>(bytes);
  if (status.ok()) *figures = {size / out[0], size / in[1], size / both[0], size / both[1], latency[0]};
  return status;
}

void Run(OpKernelContext* context, int64_t bytes) {
  std::array<double, kLinkFigures> figures{};
  absl::Status status = Measure(context, bytes, &figures);
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  Tensor* output = nullptr;
  if (status.ok()) status = context->allocate_output(0, {kLinkFigures}, &output, on_host);
  if (status.ok()) {
    std::copy(figures.begin(), figures.end(), output->flat<double>().data());
  } else {
    context->SetStatus(status);
  }
}

}  // namespace

MeasureLink::MeasureLink(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("bytes", &bytes_));
}

void MeasureLink::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  try {
    std::thread([context, done, bytes = bytes_] {
      Run(context, bytes);
      done();
    }).detach();
  } catch (const std::exception& error) {
    context->SetStatus(absl::UnavailableError(name() + ": no thread for the measurement: " + error.what()));
    done();
  }
}

}  // namespace lms
