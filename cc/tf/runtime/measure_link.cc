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

#include "cc/core/base/bytes.h"
#include "tensorflow/core/common_runtime/device.h"

namespace lms {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 3;
constexpr int kSmallRuns = 9;
constexpr int64_t kSmallBytes = 4096;
constexpr int64_t kFirstBytes = int64_t{1} << 20;  // where it is there
constexpr int64_t kLeastBytes = int64_t{64} << 10;
constexpr double kLongEnough = 2000;  // microseconds: a copy that takes so long tells the rate
constexpr int64_t kShareOfFree = 16;  // no copy takes more than one part in so many of what the device has left

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
    // Where there is no room there is none: a smaller copy tells the rate as well.
    tensorflow::AllocationAttributes at_once;
    at_once.retry_on_failure = false;
    for (Way* way : {&out_, &in_}) {
      way->device = Tensor(context_->get_allocator({}), tensorflow::DT_INT8, {bytes_}, at_once);
      way->host = Tensor(context_->get_allocator(pinned), tensorflow::DT_INT8, {bytes_}, at_once);
      if (!way->device.IsInitialized() || !way->host.IsInitialized()) {
        return absl::ResourceExhaustedError("no room for copies of " + FormatBytes(bytes_) +
                                            ", by which the way to the host is measured");
      }
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

// No copy is to take more: `most`, and a small part of what the device has left, so that the measurement is never the
// peak of a program.
int64_t MostBytes(OpKernelContext* context, int64_t most) {
  const auto stats = context->get_allocator({})->GetStats();
  if (!stats || !stats->bytes_limit) return most;
  const int64_t free = *stats->bytes_limit - stats->bytes_in_use;
  return std::max(kLeastBytes, std::min(most, free / kShareOfFree));
}

struct Rates {
  int64_t bytes = 0;  // of each copy
  std::array<double, 2> out{}, in{}, both{};
};

absl::Status MeasureRates(OpKernelContext* context, int64_t bytes, Rates* rates) {
  Copies copies(context, bytes);
  Rates found;
  found.bytes = bytes;
  absl::Status status = copies.Allocate();
  if (status.ok()) status = copies.Measure(true, true, 1, &found.both);  // the first touch of the memory does not count
  if (status.ok()) status = copies.Measure(true, false, kRuns, &found.out);
  if (status.ok()) status = copies.Measure(false, true, kRuns, &found.in);
  if (status.ok()) status = copies.Measure(true, true, kRuns, &found.both);
  if (status.ok()) *rates = found;
  return status;
}

absl::Status Measure(OpKernelContext* context, int64_t most_bytes, std::array<double, kLinkFigures>* figures) {
  const int64_t most = MostBytes(context, most_bytes);
  Rates rates;
  int64_t bytes = std::min(most, kFirstBytes);
  absl::Status status = MeasureRates(context, bytes, &rates);
  while (absl::IsResourceExhausted(status) && bytes / 2 >= kLeastBytes) {
    bytes /= 2;
    status = MeasureRates(context, bytes, &rates);
  }
  // Larger copies, until they take long enough or there is no room for them: then what is known already is kept.
  while (status.ok() && bytes == rates.bytes && 2 * bytes <= most &&
         std::min(rates.out[0], rates.in[1]) < kLongEnough) {
    bytes *= 2;
    const absl::Status larger = MeasureRates(context, bytes, &rates);
    if (!absl::IsResourceExhausted(larger)) status = larger;
  }
  std::array<double, 2> latency{};
  Copies small(context, kSmallBytes);
  if (status.ok()) status = small.Allocate();
  if (status.ok()) status = small.Measure(true, false, kSmallRuns, &latency);
  if (!status.ok()) return status;
  // Bytes per microsecond, but for what any copy takes.
  const auto rate = [&](double microseconds) {
    return static_cast<double>(rates.bytes) / std::max(microseconds - latency[0], microseconds / 2);
  };
  *figures = {rate(rates.out[0]), rate(rates.in[1]), rate(rates.both[0]), rate(rates.both[1]), latency[0]};
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
