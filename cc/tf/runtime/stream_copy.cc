#include "cc/tf/runtime/stream_copy.h"

#include <map>
#include <mutex>
#include <utility>

#include "lms_build_facts.h"
#include "tensorflow/core/common_runtime/device.h"
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

// Of one device, beside TensorFlow's compute stream; they are there for as long as the process, as TensorFlow's are.
struct StreamCopy::Streams {
  se::Stream* compute = nullptr;
  std::unique_ptr<se::Stream> out;
  std::unique_ptr<se::Stream> in;
};

struct StreamCopy::State {
  std::mutex mutex;
  se::Stream* compute = nullptr;
  std::unique_ptr<se::Event> event;  // behind the copy
  Tensor device;
  std::shared_ptr<const void> host_owner;
  bool ended = false;
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
  auto out = compute->parent()->CreateStream();
  auto in = compute->parent()->CreateStream();
  if (!out.ok() || !in.ok()) return nullptr;  // and so it stays
  found->second = std::make_unique<Streams>();
  *found->second = {compute, std::move(*out), std::move(*in)};
  return found->second.get();
}

bool StreamCopy::CanRun(OpKernelContext* context) { return StreamsOf(context) != nullptr; }

absl::Status StreamCopy::Begin(Way way, OpKernelContext* context, const Tensor& host,
                               std::shared_ptr<const void> host_owner, StreamCopy* after, const Tensor& device,
                               std::shared_ptr<StreamCopy>* copy) {
  Streams* const streams = StreamsOf(context);
  se::Stream* const stream = way == Way::kOut ? streams->out.get() : streams->in.get();
  auto event = stream->parent()->CreateEvent();
  if (!event.ok()) return event.status();
  auto state = std::make_unique<State>();
  state->compute = streams->compute;
  state->event = std::move(*event);
  state->device = device;
  state->host_owner = std::move(host_owner);
  se::Event* const behind = state->event.get();
  std::shared_ptr<StreamCopy> begun(new StreamCopy(std::move(state)));

  void* const host_bytes = host.data();
  const auto bytes = static_cast<uint64_t>(device.TotalBytes());
  se::DeviceAddressBase device_bytes(device.data(), bytes);
  // The tensor may still be written by what was given to the compute stream, or its memory used by whoever had it.
  absl::Status status = stream->WaitFor(streams->compute);
  if (status.ok() && after != nullptr) {
    const std::lock_guard<std::mutex> lock(after->state_->mutex);
    if (!after->state_->ended) status = stream->WaitFor(after->state_->event.get());
  }
  if (!status.ok()) return status;
  status = way == Way::kOut ? stream->Memcpy(host_bytes, device_bytes, bytes)
                            : stream->Memcpy(&device_bytes, host_bytes, bytes);
  if (status.ok()) status = stream->RecordEvent(behind);
  if (status.ok()) {
    auto* const on = static_cast<tensorflow::Device*>(context->device());
    status = context->op_device_context()->ThenExecute(on, stream, [begun] { begun->Ended(); });
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
  if (state_->ended) return absl::OkStatus();
  absl::Status status = state_->compute->WaitFor(state_->event.get());
  if (status.ok()) std::swap(device, state_->device);
  return status;
}

void StreamCopy::Ended() {
  Tensor device;
  std::shared_ptr<const void> host_owner;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ended = true;
  std::swap(device, state_->device);
  std::swap(host_owner, state_->host_owner);
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
