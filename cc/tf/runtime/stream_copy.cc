#include "cc/tf/runtime/stream_copy.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/tf/graph/handed_copies.h"
#include "lms_build_facts.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/platform/env.h"
#if LMS_TF_VERSION_NUMBER >= 2021
#include "xla/stream_executor/device_address.h"
#include "xla/stream_executor/event.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"
#endif

namespace lms {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

#if LMS_TF_VERSION_NUMBER >= 2021

namespace se = ::stream_executor;

// A step that lacks memory waits for some 10 s before it fails: there must be time to give it what is held.
constexpr int64_t kLongestHeldUs = 4'000'000;
// Large copies are made in pieces, between which the device can take up small ones, which are on other streams.
constexpr uint64_t kPieceBytes = 4 << 20;

// Of one device, beside TensorFlow's compute stream; they are there for as long as the process, as TensorFlow's are.
struct StreamCopy::Streams {
  se::Stream* compute = nullptr;
  std::unique_ptr<se::Stream> out;
  std::unique_ptr<se::Stream> in;
  std::unique_ptr<se::Stream> small_out;
  std::unique_ptr<se::Stream> small_in;

  se::Stream* For(Way way, uint64_t bytes) const {
    if (bytes <= static_cast<uint64_t>(kSmallCopyBytes)) return way == Way::kOut ? small_out.get() : small_in.get();
    return way == Way::kOut ? out.get() : in.get();
  }
};

struct StreamCopy::State {
  std::mutex mutex;
  se::Stream* compute = nullptr;
  std::unique_ptr<se::Event> event;  // behind the copy
  Tensor device;
  std::shared_ptr<const void> host_owner;
  bool held = false;  // until Wait, though it may have ended
  bool ended = false;
};

// Copies that have ended and hold their tensors for a Wait that has not come.
class StreamCopy::Held {
 public:
  static Held& All() {
    static auto* const all = new Held;
    return *all;
  }

  void Add(const std::shared_ptr<StreamCopy>& copy) {
    const std::lock_guard<std::mutex> lock(mutex_);
    copies_.push_back({tensorflow::Env::Default()->NowMicros() + kLongestHeldUs, copy});
    LookLater();
  }

 private:
  struct Entry {
    uint64_t until_us;
    std::weak_ptr<StreamCopy> copy;
  };

  // One look at a time is under way. With the mutex.
  void LookLater() {
    if (looks_ || copies_.empty()) return;
    looks_ = true;
    tensorflow::Env::Default()->SchedClosureAfter(kLongestHeldUs / 4, [this] { Look(); });
  }

  void Look() {
    std::vector<std::shared_ptr<StreamCopy>> late;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const uint64_t now = tensorflow::Env::Default()->NowMicros();
      while (!copies_.empty() && copies_.front().until_us <= now) {
        if (auto copy = copies_.front().copy.lock()) late.push_back(std::move(copy));
        copies_.pop_front();
      }
      looks_ = false;
      LookLater();
    }
    for (const auto& copy : late) copy->LetGo();
  }

  std::mutex mutex_;
  std::deque<Entry> copies_;  // those that are due first come first
  bool looks_ = false;
};

StreamCopy::StreamCopy(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamCopy::~StreamCopy() = default;

StreamCopy::Streams* StreamCopy::StreamsOf(OpKernelContext* context) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<se::Stream*, std::unique_ptr<Streams>>;
  if (context->op_device_context() == nullptr) return nullptr;
  se::Stream* const compute = context->op_device_context()->stream();
  if (compute == nullptr || compute->parent() == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto [found, is_new] = all->emplace(compute, nullptr);
  if (!is_new) return found->second.get();
  auto streams = std::make_unique<Streams>();
  streams->compute = compute;
  for (auto* const stream : {&streams->out, &streams->in, &streams->small_out, &streams->small_in}) {
    auto made = compute->parent()->CreateStream();
    if (!made.ok()) return nullptr;  // and so it stays
    *stream = std::move(*made);
  }
  found->second = std::move(streams);
  return found->second.get();
}

bool StreamCopy::CanRun(OpKernelContext* context) { return StreamsOf(context) != nullptr; }

absl::Status StreamCopy::Begin(Way way, OpKernelContext* context, const Tensor& host,
                               std::shared_ptr<const void> host_owner, StreamCopy* after, const Tensor& device,
                               std::shared_ptr<StreamCopy>* copy) {
  Streams* const streams = StreamsOf(context);
  const auto bytes = static_cast<uint64_t>(device.TotalBytes());
  se::Stream* const stream = streams->For(way, bytes);
  auto event = stream->parent()->CreateEvent();
  if (!event.ok()) return event.status();
  auto state = std::make_unique<State>();
  state->compute = streams->compute;
  state->event = std::move(*event);
  state->device = device;
  state->host_owner = std::move(host_owner);
  state->held = way == Way::kOut;
  se::Event* const behind = state->event.get();
  std::shared_ptr<StreamCopy> begun(new StreamCopy(std::move(state)));

  // The tensor may still be written by what was given to the compute stream, or its memory used by whoever had it.
  absl::Status status = stream->WaitFor(streams->compute);
  if (status.ok() && after != nullptr) {
    const std::lock_guard<std::mutex> lock(after->state_->mutex);
    if (!after->state_->ended) status = stream->WaitFor(after->state_->event.get());
  }
  if (!status.ok()) return status;
  for (uint64_t first = 0; status.ok() && first < bytes; first += kPieceBytes) {
    const uint64_t piece = std::min(kPieceBytes, bytes - first);
    char* const host_bytes = static_cast<char*>(host.data()) + first;
    se::DeviceAddressBase device_bytes(static_cast<char*>(device.data()) + first, piece);
    status = way == Way::kOut ? stream->Memcpy(host_bytes, device_bytes, piece)
                              : stream->Memcpy(&device_bytes, host_bytes, piece);
  }
  if (status.ok()) status = stream->RecordEvent(behind);
  if (status.ok()) {
    auto* const on = static_cast<tensorflow::Device*>(context->device());
    status = context->op_device_context()->ThenExecute(on, stream, [begun] {
      begun->Ended();
      if (begun->state_->held) Held::All().Add(begun);
    });
  }
  if (!status.ok()) {
    stream->BlockHostUntilDone().IgnoreError();  // the copy may have begun
    return status;
  }
  *copy = std::move(begun);
  return absl::OkStatus();
}

absl::Status StreamCopy::Wait() {
  Tensor device;  // goes without the mutex
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const absl::Status status = state_->ended ? absl::OkStatus() : state_->compute->WaitFor(state_->event.get());
  if (status.ok()) std::swap(device, state_->device);
  return status;
}

void StreamCopy::Ended() {
  Tensor device;
  std::shared_ptr<const void> host_owner;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ended = true;
  if (!state_->held) std::swap(device, state_->device);
  std::swap(host_owner, state_->host_owner);
}

void StreamCopy::LetGo() {
  Tensor device;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::swap(device, state_->device);
}

#else  // streams of older versions are not what is asked for here

struct StreamCopy::Streams {};
struct StreamCopy::State {};

StreamCopy::StreamCopy(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamCopy::~StreamCopy() = default;
StreamCopy::Streams* StreamCopy::StreamsOf(OpKernelContext*) { return nullptr; }
bool StreamCopy::CanRun(OpKernelContext*) { return false; }
absl::Status StreamCopy::Begin(Way, OpKernelContext*, const Tensor&, std::shared_ptr<const void>, StreamCopy*,
                               const Tensor&, std::shared_ptr<StreamCopy>*) {
  return absl::UnimplementedError("no streams in this version of TensorFlow");
}
absl::Status StreamCopy::Wait() { return absl::OkStatus(); }
void StreamCopy::Ended() {}

#endif

absl::Status StreamCopy::Out(OpKernelContext* context, const Tensor& device, const Tensor& host,
                             std::shared_ptr<const void> host_owner, std::shared_ptr<StreamCopy>* copy) {
  return Begin(Way::kOut, context, host, std::move(host_owner), /*after=*/nullptr, device, copy);
}

absl::Status StreamCopy::In(OpKernelContext* context, const Tensor& host, std::shared_ptr<const void> host_owner,
                            StreamCopy* out, const Tensor& device, std::shared_ptr<StreamCopy>* copy) {
  return Begin(Way::kIn, context, host, std::move(host_owner), out, device, copy);
}

}  // namespace lms
