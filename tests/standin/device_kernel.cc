#include "tests/standin/device_kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "tensorflow/c/kernels.h"
#include "tensorflow/core/framework/device_base.h"
#include "tests/standin/memory.h"
#include "tests/standin/outputs.h"
#include "tests/standin/settings.h"
#include "tests/standin/stream.h"

namespace standin {

using ::tensorflow::MemoryType;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

namespace {

constexpr size_t kMostRehearsed = 256;
constexpr size_t kLargestKey = 4096;

// Their outputs' sizes depend on what device memory holds.
const std::set<std::string>& DataDependent() {
  static const auto* const ops = new std::set<std::string>{
      "Where",    "DynamicPartition", "Unique",       "UniqueV2",   "UniqueWithCounts", "UniqueWithCountsV2",
      "ListDiff", "SegmentSum",       "SegmentMean",  "SegmentMax", "SegmentMin",       "SegmentProd",
      "Bincount", "RaggedRange",      "DenseBincount"};
  return *ops;
}
bool SizesDependOnData(const std::string& op) {
  return DataDependent().count(op) > 0 || op.rfind("SparseSegment", 0) == 0 || op.rfind("NonMaxSuppression", 0) == 0;
}
// They read shapes only, or hand out what they hold, although tensors of theirs are on the device.
bool TouchesNoData(const std::string& op) {
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank" || op == "Const";
}

[[noreturn]] void Fail(const OpKernel& kernel, const char* what) {
  std::fprintf(stderr,
               "standin: %s (%s) %s: its sizes depend on data, or threads allocate. Name it in DataDependent().\n",
               kernel.name().c_str(), kernel.type_string().c_str(), what);
  std::abort();
}

// ---- allocations of a kernel while it runs

}  // namespace

struct Allocation {
  size_t bytes = 0;
  int output = -1;  // which it becomes; -1: a temporary
};

namespace {

// What the thread that runs a kernel is told to do with allocations. Those of other threads are temporaries.
struct Run {
  const OpKernel* kernel = nullptr;
  std::vector<std::pair<void*, size_t>>* recorded = nullptr;  // a rehearsal
  const std::vector<Allocation>* allocations = nullptr;       // as rehearsed
  const std::vector<void*>* outputs = nullptr;                // the views
  size_t next = 0;
};
thread_local Run* current = nullptr;

class HostAllocator : public tensorflow::Allocator {
 public:
  std::string Name() override { return "standin_host"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override {
    if (current != nullptr && current->allocations != nullptr) {
      if (current->next == current->allocations->size()) Fail(*current->kernel, "allocates more than in its rehearsal");
      const Allocation& expected = (*current->allocations)[current->next++];
      if (expected.bytes != bytes) Fail(*current->kernel, "allocates other sizes than in its rehearsal");
      if (expected.output >= 0) return (*current->outputs)[expected.output];
    }
    void* address = nullptr;
    if (posix_memalign(&address, std::max(alignment, size_t{64}), std::max(bytes, size_t{1})) != 0) return nullptr;
    if (current != nullptr && current->recorded != nullptr) current->recorded->emplace_back(address, bytes);
    return address;
  }
  void DeallocateRaw(void* address) override {
    if (!IsView(address)) std::free(address);
  }
};

}  // namespace

// The device as the CPU's kernels see it: the same, but memory comes from the above.
class HostDevice : public tensorflow::DeviceBase {
 public:
  explicit HostDevice(DeviceBase* device) : DeviceBase(device->env()), device_(device) {}
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes /*attributes*/) override {
    static HostAllocator* const allocator = new HostAllocator;
    return allocator;
  }
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return device_->tensorflow_cpu_worker_threads();
  }
  bool has_eigen_cpu_device() const override { return device_->has_eigen_cpu_device(); }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return device_->eigen_cpu_device(); }
  const tensorflow::DeviceAttributes& attributes() const override { return device_->attributes(); }
  const std::string& name() const override { return device_->name(); }
  const tensorflow::DeviceNameUtils::ParsedName& parsed_name() const override { return device_->parsed_name(); }
  const std::string& device_type() const override { return device_->device_type(); }

 private:
  DeviceBase* const device_;
};

namespace {

// ---- tensors that hold nothing

// Bytes that are somebody else's. `sole`: a kernel may write its output over them.
class BorrowedBuffer : public tensorflow::TensorBuffer {
 public:
  BorrowedBuffer(void* bytes, size_t size, bool sole) : TensorBuffer(bytes), size_(size), sole_(sole) {}
  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* /*description*/) const override {}
  bool OwnsMemory() const override { return sole_; }

 private:
  const size_t size_;
  const bool sole_;
};

Tensor Borrow(const Tensor& tensor, void* bytes, bool sole) {
  auto* const buffer = new BorrowedBuffer(bytes, tensor.TotalBytes(), sole);
  Tensor borrowed(tensor.dtype(), tensor.shape(), buffer);
  buffer->Unref();
  return borrowed;
}

// ---- errors in the stream

struct StreamError {
  std::mutex mutex;
  absl::Status status;
};
StreamError& LastError() {
  static StreamError* const error = new StreamError;
  return *error;
}
void SetError(const absl::Status& status) {
  std::fprintf(stderr, "standin: in the stream: %s\n", status.ToString().c_str());
  StreamError& error = LastError();
  const std::lock_guard<std::mutex> lock(error.mutex);
  error.status = status;
}
absl::Status TakeError() {
  StreamError& error = LastError();
  const std::lock_guard<std::mutex> lock(error.mutex);
  return std::exchange(error.status, absl::OkStatus());
}

SP_Stream StreamOf(OpKernelContext* context) {
  TF_Status* const status = TF_NewStatus();
  SP_Stream const stream = TF_GetStream(reinterpret_cast<TF_OpKernelContext*>(context), status);
  if (TF_GetCode(status) != TF_OK) {
    std::fprintf(stderr, "standin: no stream: %s\n", TF_Message(status));
    std::abort();
  }
  TF_DeleteStatus(status);
  return stream;
}

// Runs the CPU's kernel on these inputs; `use` sees its outputs before they are let go.
template <typename Use>
absl::Status RunOnHost(OpKernel* kernel, HostDevice* device, tensorflow::ResourceMgr* resources, int64_t step_id,
                       std::vector<Tensor>* inputs, Run* run, Use use) {
  std::vector<tensorflow::TensorValue> values;
  for (Tensor& input : *inputs) values.emplace_back(&input);
  const std::vector<tensorflow::AllocatorAttributes> attributes(kernel->num_outputs());
  OpKernelContext::Params params;
  params.step_id = step_id;
  params.op_kernel = kernel;
  params.device = device;
  params.inputs = values;
  params.output_attr_array = attributes.data();
  params.resource_manager = resources;
  OpKernelContext context(&params, kernel->num_outputs());
  run->kernel = kernel;
  current = run;
  kernel->Compute(&context);
  current = nullptr;
  if (context.status().ok()) use(&context);
  for (int i = 0; i < kernel->num_outputs(); ++i) delete context.release_output(i).tensor;
  return context.status();
}

}  // namespace

// One output.
struct Output {
  enum class Kind { kNone, kAllocated, kCopied, kShared };
  Kind kind = Kind::kNone;
  TensorShape shape;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  int input = -1;      // kShared: with which input, from which byte on
  int64_t offset = 0;  // likewise
};
struct Outputs {
  std::vector<Output> outputs;
  std::vector<Allocation> allocations;
};

// What the stream needs when the kernel may be gone.
struct DeviceKernel::Host {
  Host(std::unique_ptr<OpKernel> cpu_kernel, tensorflow::DeviceBase* real)
      : kernel(std::move(cpu_kernel)), device(real) {}
  const std::unique_ptr<OpKernel> kernel;
  HostDevice device;
};

namespace {

// The part of `input` that an output shares.
Tensor Part(const Tensor& input, const Output& output) {
  Tensor bytes;
  bytes.UnsafeCopyFromInternal(input, tensorflow::DT_INT8, {static_cast<int64_t>(input.TotalBytes())});
  const int64_t size = output.shape.num_elements() * tensorflow::DataTypeSize(output.dtype);
  if (output.offset != 0 || size != bytes.NumElements()) bytes = bytes.Slice(output.offset, output.offset + size);
  Tensor part;
  part.UnsafeCopyFromInternal(bytes, output.dtype, output.shape);
  return part;
}

// How the outputs of a rehearsal came about. `copies`: where its inputs were; null for those of the host.
std::vector<Output> OutputsOf(OpKernelContext* context, const std::vector<char*>& copies,
                              const std::vector<Tensor>& inputs, const std::vector<std::pair<void*, size_t>>& recorded,
                              std::vector<Allocation>* allocations) {
  for (const auto& [address, bytes] : recorded) allocations->push_back({bytes, -1});
  std::vector<Output> outputs(context->num_outputs());
  for (int i = 0; i < context->num_outputs(); ++i) {
    const Tensor* const tensor = context->mutable_output(i);
    if (tensor == nullptr) continue;
    Output& output = outputs[i];
    output.kind = Output::Kind::kCopied;
    output.shape = tensor->shape();
    output.dtype = tensor->dtype();
    const char* const data = static_cast<const char*>(tensor->data());
    const auto bytes = static_cast<int64_t>(tensor->TotalBytes());
    if (bytes == 0) continue;
    for (size_t j = 0; j < copies.size(); ++j) {
      if (copies[j] == nullptr || data < copies[j] || data + bytes > copies[j] + inputs[j].TotalBytes()) continue;
      output.kind = Output::Kind::kShared;
      output.input = static_cast<int>(j);
      output.offset = data - copies[j];
    }
    // The last: a temporary may have been there before it.
    for (size_t a = recorded.size(); a-- > 0 && output.kind == Output::Kind::kCopied;) {
      const bool whole = recorded[a].first == data && recorded[a].second == tensor->TotalBytes();
      if (!whole || (*allocations)[a].output >= 0) continue;
      (*allocations)[a].output = i;
      output.kind = Output::Kind::kAllocated;
    }
  }
  return outputs;
}

}  // namespace

DeviceKernel::DeviceKernel(tensorflow::OpKernelConstruction* construction, const MakeCpuKernel& make)
    : OpKernel(construction),
      mode_(ModeOf(*this)),
      host_(std::make_shared<Host>(make(construction), construction->device())),
      rehearsal_(mode_ == Mode::kInStream ? make(construction) : nullptr) {}

DeviceKernel::~DeviceKernel() = default;

DeviceKernel::Mode DeviceKernel::ModeOf(const OpKernel& kernel) {
  bool on_device = false;
  bool output_on_host = false;
  bool plain = true;
  const auto look = [&](tensorflow::DataType type, MemoryType memory) {
    if (memory == tensorflow::DEVICE_MEMORY) on_device = true;
    plain = plain && tensorflow::DataTypeCanUseMemcpy(type) && !tensorflow::IsRefType(type);
  };
  for (int i = 0; i < kernel.num_inputs(); ++i) look(kernel.input_type(i), kernel.input_memory_types()[i]);
  for (int i = 0; i < kernel.num_outputs(); ++i) {
    look(kernel.output_type(i), kernel.output_memory_types()[i]);
    if (kernel.output_memory_types()[i] == tensorflow::HOST_MEMORY) output_on_host = true;
  }
  if (TouchesNoData(kernel.type_string()) || (plain && !on_device)) return Mode::kAtOnce;
  const bool in_stream = plain && !output_on_host && !SizesDependOnData(kernel.type_string());
  return in_stream ? Mode::kInStream : Mode::kAfterStream;
}

void DeviceKernel::Compute(OpKernelContext* context) {
  const absl::Status error = TakeError();
  OP_REQUIRES_OK(context, error);
  switch (mode_) {
    case Mode::kAtOnce:
      host_->kernel->Compute(context);
      return;
    case Mode::kAfterStream: {
      StreamOf(context)->BlockUntilDone();
      Jitter();
      const Gate gate;
      host_->kernel->Compute(context);
      return;
    }
    case Mode::kInStream:
      ComputeInStream(context);
  }
}

void DeviceKernel::ComputeInStream(OpKernelContext* context) {
  SP_Stream const stream = StreamOf(context);
  std::vector<bool> sole(num_inputs());
  std::string key;
  for (int i = 0; i < num_inputs(); ++i) {
    const Tensor& input = context->input(i);
    const bool host = input_memory_types()[i] == tensorflow::HOST_MEMORY;
    sole[i] = !host && input.RefCountIsOne();
    for (int dim = 0; dim < input.dims(); ++dim) key += std::to_string(input.dim_size(dim)) + ",";
    key += sole[i] ? "!" : ";";
    if (host) key.append(static_cast<const char*>(input.data()), input.TotalBytes());
  }
  std::shared_ptr<const Outputs> as_rehearsed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = rehearsed_.find(key);
    if (found != rehearsed_.end()) {
      as_rehearsed = found->second;
    } else {
      stream->BlockUntilDone();
      if (!Get().compute) as_rehearsed = WithoutComputing(context, sole);
      if (as_rehearsed == nullptr) OP_REQUIRES_OK(context, Rehearse(Whole(context), sole, context, &as_rehearsed));
      if (rehearsed_.size() >= kMostRehearsed) rehearsed_.clear();
      if (key.size() <= kLargestKey) rehearsed_[key] = as_rehearsed;
    }
  }

  std::vector<Tensor> inputs;
  for (int i = 0; i < num_inputs(); ++i) {
    const Tensor& input = context->input(i);
    const bool host = input_memory_types()[i] == tensorflow::HOST_MEMORY;
    inputs.push_back(host ? input : Borrow(input, View(input.data()), sole[i]));
  }
  std::vector<void*> views(num_outputs(), nullptr);
  for (int i = 0; i < num_outputs(); ++i) {
    const Output& output = as_rehearsed->outputs[i];
    if (output.kind == Output::Kind::kNone) continue;
    if (output.kind == Output::Kind::kShared) {
      context->set_output(i, Part(context->input(output.input), output));
      continue;
    }
    Tensor* tensor = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(i, output.shape, &tensor));
    views[i] = View(tensor->data());
  }
  if (!Get().compute) return;
  auto work = [host = host_, as_rehearsed, inputs = std::move(inputs), views = std::move(views),
               resources = context->resource_manager(), step_id = context->step_id()]() mutable {
    Run run;
    run.allocations = &as_rehearsed->allocations;
    run.outputs = &views;
    const absl::Status status =
        RunOnHost(host->kernel.get(), &host->device, resources, step_id, &inputs, &run, [&](OpKernelContext* done) {
          for (size_t i = 0; i < views.size(); ++i) {
            if (as_rehearsed->outputs[i].kind != Output::Kind::kCopied) continue;
            const Tensor& output = *done->mutable_output(static_cast<int>(i));
            if (output.TotalBytes() > 0) std::memcpy(views[i], View(output.data()), output.TotalBytes());
          }
        });
    if (!status.ok()) SetError(status);
  };
  stream->Add(std::move(work), name());
  if (!Get().run_ahead) stream->BlockUntilDone();
}

namespace {

constexpr size_t kAlignment = 64;

}  // namespace

// The inputs as they are.
std::vector<Tensor> DeviceKernel::Whole(OpKernelContext* context) const {
  std::vector<Tensor> inputs;
  for (int i = 0; i < num_inputs(); ++i) inputs.push_back(context->input(i));
  return inputs;
}

// Inputs whose every dimension is 1 or 2, and that hold zeros; those in the host's memory are what they are.
std::vector<Tensor> DeviceKernel::SmallInputs(OpKernelContext* context) const {
  std::vector<Tensor> inputs;
  for (int i = 0; i < num_inputs(); ++i) {
    const Tensor& input = context->input(i);
    if (input_memory_types()[i] == tensorflow::HOST_MEMORY) {
      inputs.push_back(input);
      continue;
    }
    Tensor small(input.dtype(), Small(input.shape()));
    std::memset(small.data(), 0, small.TotalBytes());
    inputs.push_back(small);
  }
  return inputs;
}

// Null where only the whole tensors tell.
std::shared_ptr<const Outputs> DeviceKernel::WithoutComputing(OpKernelContext* context, const std::vector<bool>& sole) {
  const auto specs = OutputSpecs(*this, *context);
  if (!specs) return nullptr;
  const Sharing sharing = SharingOf(*this, *context, *specs);
  if (sharing == Sharing::kWhole) return nullptr;
  auto found = std::make_shared<Outputs>();
  if (sharing == Sharing::kSmall) {
    std::shared_ptr<const Outputs> small;
    if (!Rehearse(SmallInputs(context), sole, context, &small).ok()) return nullptr;
    found->outputs = small->outputs;
  }
  found->outputs.resize(num_outputs());
  for (int i = 0; i < num_outputs(); ++i) {
    Output& output = found->outputs[i];
    if (sharing == Sharing::kFirst) {
      output.kind = Output::Kind::kShared;
      output.input = 0;
    } else if (sharing == Sharing::kNone) {
      output.kind = Output::Kind::kAllocated;
    }
    output.shape = (*specs)[i].shape;
    output.dtype = (*specs)[i].dtype;
    if (output.kind != Output::Kind::kShared) continue;
    const bool whole =
        output.offset == 0 && static_cast<int64_t>(context->input(output.input).TotalBytes()) == (*specs)[i].Bytes();
    if (!whole) return nullptr;
  }
  return found;
}

// Under mutex_, when the stream has done all before.
absl::Status DeviceKernel::Rehearse(const std::vector<Tensor>& originals, const std::vector<bool>& sole,
                                    OpKernelContext* context, std::shared_ptr<const Outputs>* outputs) {
  std::vector<std::vector<char>> bytes(num_inputs());
  std::vector<char*> copies(num_inputs(), nullptr);
  std::vector<Tensor> inputs;
  for (int i = 0; i < num_inputs(); ++i) {
    const Tensor& input = originals[i];
    if (input_memory_types()[i] == tensorflow::HOST_MEMORY) {
      inputs.push_back(input);
      continue;
    }
    bytes[i].resize(input.TotalBytes() + kAlignment);
    const auto first = reinterpret_cast<uintptr_t>(bytes[i].data());
    copies[i] = bytes[i].data() + (kAlignment - first % kAlignment) % kAlignment;
    if (input.TotalBytes() > 0) std::memcpy(copies[i], View(input.data()), input.TotalBytes());
    inputs.push_back(Borrow(input, copies[i], sole[i]));
  }
  auto found = std::make_shared<Outputs>();
  std::vector<std::pair<void*, size_t>> recorded;
  Run run;
  run.recorded = &recorded;
  const absl::Status status = RunOnHost(
      rehearsal_.get(), &host_->device, context->resource_manager(), context->step_id(), &inputs, &run,
      [&](OpKernelContext* done) { found->outputs = OutputsOf(done, copies, inputs, recorded, &found->allocations); });
  *outputs = std::move(found);
  return status;
}

}  // namespace standin
