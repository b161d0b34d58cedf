// The platform "STANDIN" with devices of type "GPU", through TensorFlow's StreamExecutor C API: what TensorFlow finds
// when it loads the library. It gives a device TensorFlow's own BFC allocator over an arena of a hard size, its copy
// streams, its event manager and its pool of pinned memory.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/tf_status.h"
#include "tests/standin/link.h"
#include "tests/standin/memory.h"
#include "tests/standin/settings.h"
#include "tests/standin/stream.h"

namespace standin {
namespace {

void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

// ---- memory

void Allocate(const SP_Device* device, uint64_t size, int64_t /*space*/, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = AllocateOnDevice(device->ordinal, static_cast<int64_t>(size));
  memory->size = memory->opaque != nullptr ? size : 0;
}
void Deallocate(const SP_Device*, SP_DeviceMemoryBase* memory) { FreeOnDevice(memory->opaque); }
void* HostAllocate(const SP_Device*, uint64_t size) { return AllocatePinned(static_cast<int64_t>(size)); }
void HostDeallocate(const SP_Device*, void* address) { FreePinned(address); }
void* NoUnified(const SP_Device*, uint64_t) { return nullptr; }
void NoUnifiedFree(const SP_Device*, void*) {}

TF_Bool AllocatorStats(const SP_Device* device, SP_AllocatorStats* stats) {
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->bytes_in_use = DeviceBytesInUse(device->ordinal);
  return true;
}

// TensorFlow keeps 255 MiB of small devices, else the larger of 300 MiB and 5%, for the system. That is on top here, so
// that what it takes for its arena is what was asked for.
TF_Bool MemoryUsage(const SP_Device* device, int64_t* free, int64_t* total) {
  constexpr int64_t kMebibyte = 1 << 20;
  const int64_t in_use = DeviceBytesInUse(device->ordinal);
  const int64_t left = Get().memory_bytes - in_use;
  *free = left + 255 * kMebibyte;
  if (*free >= int64_t{1} << 31) {
    *free = std::max(left + 300 * kMebibyte, static_cast<int64_t>(static_cast<double>(left) / 0.95));
  }
  *total = *free + in_use;
  return true;
}

// ---- streams, events, timers

struct Streams {
  std::mutex mutex;
  std::set<SP_Stream> all;
};
Streams& AllStreams() {
  static Streams* const streams = new Streams;
  return *streams;
}

void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status* status) {
  *stream = new SP_Stream_st;
  Streams& streams = AllStreams();
  const std::lock_guard<std::mutex> lock(streams.mutex);
  streams.all.insert(*stream);
  Ok(status);
}
void DestroyStream(const SP_Device*, SP_Stream stream) {
  Streams& streams = AllStreams();
  {
    const std::lock_guard<std::mutex> lock(streams.mutex);
    streams.all.erase(stream);
  }
  delete stream;
}
void StreamDependency(const SP_Device*, SP_Stream dependent, SP_Stream other, TF_Status* status) {
  dependent->WaitFor(other->Record());
  Ok(status);
}
void StreamStatus(const SP_Device*, SP_Stream, TF_Status* status) { Ok(status); }

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Ok(status);
}
void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }
SE_EventStatus EventStatus(const SP_Device*, SP_Event event) {
  const auto mark = event->Get();
  return mark == nullptr || mark->Reached() ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}
void RecordEvent(const SP_Device*, SP_Stream stream, SP_Event event, TF_Status* status) {
  event->Set(stream->Record());
  Ok(status);
}
void WaitForEvent(const SP_Device*, SP_Stream stream, SP_Event event, TF_Status* status) {
  if (auto mark = event->Get()) stream->WaitFor(std::move(mark));
  Ok(status);
}
void BlockForEvent(const SP_Device*, SP_Event event, TF_Status* status) {
  if (const auto mark = event->Get()) mark->Wait();
  Ok(status);
}
void BlockUntilDone(const SP_Device*, SP_Stream stream, TF_Status* status) {
  stream->BlockUntilDone();
  Ok(status);
}
void SynchronizeAll(const SP_Device*, TF_Status* status) {
  std::set<std::shared_ptr<Mark>> marks;
  {
    Streams& streams = AllStreams();
    const std::lock_guard<std::mutex> lock(streams.mutex);
    for (SP_Stream stream : streams.all) marks.insert(stream->Record());
  }
  for (const auto& mark : marks) mark->Wait();
  Ok(status);
}

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Ok(status);
}
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void StartTimer(const SP_Device*, SP_Stream stream, SP_Timer timer, TF_Status* status) {
  stream->Add([timer] { timer->begin = Clock::now(); });
  Ok(status);
}
void StopTimer(const SP_Device*, SP_Stream stream, SP_Timer timer, TF_Status* status) {
  stream->Add([timer] { timer->end = Clock::now(); });
  Ok(status);
}
uint64_t Nanoseconds(SP_Timer timer) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(timer->end - timer->begin).count();
}

// ---- copies and fills

bool Allowed(Way way, void* to, const void* from, uint64_t bytes, TF_Status* status) {
  const std::string refused = Refused(way, to, from, static_cast<int64_t>(bytes));
  TF_SetStatus(status, refused.empty() ? TF_OK : TF_INTERNAL, refused.c_str());
  return refused.empty();
}
std::string InWords(Way way) { return way == Way::kOut ? "copy out " : way == Way::kIn ? "copy in " : "copy within "; }
void Enqueue(Way way, SP_Stream stream, void* to, const void* from, uint64_t bytes, TF_Status* status) {
  if (!Allowed(way, to, from, bytes, status)) return;
  stream->Add([=] { Copy(way, to, from, static_cast<int64_t>(bytes)); }, InWords(way) + std::to_string(bytes));
}
void CopyNow(Way way, void* to, const void* from, uint64_t bytes, TF_Status* status) {
  if (Allowed(way, to, from, bytes, status)) Copy(way, to, from, static_cast<int64_t>(bytes));
}
void Out(const SP_Device*, SP_Stream stream, void* to, const SP_DeviceMemoryBase* from, uint64_t bytes,
         TF_Status* status) {
  Enqueue(Way::kOut, stream, to, from->opaque, bytes, status);
}
void In(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to, const void* from, uint64_t bytes,
        TF_Status* status) {
  Enqueue(Way::kIn, stream, to->opaque, from, bytes, status);
}
void Within(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
            uint64_t bytes, TF_Status* status) {
  Enqueue(Way::kWithin, stream, to->opaque, from->opaque, bytes, status);
}
void OutNow(const SP_Device*, void* to, const SP_DeviceMemoryBase* from, uint64_t bytes, TF_Status* status) {
  CopyNow(Way::kOut, to, from->opaque, bytes, status);
}
void InNow(const SP_Device*, SP_DeviceMemoryBase* to, const void* from, uint64_t bytes, TF_Status* status) {
  CopyNow(Way::kIn, to->opaque, from, bytes, status);
}
void WithinNow(const SP_Device*, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t bytes,
               TF_Status* status) {
  CopyNow(Way::kWithin, to->opaque, from->opaque, bytes, status);
}

void Fill(SP_Stream stream, const SP_DeviceMemoryBase* memory, uint32_t value, uint64_t bytes, TF_Status* status) {
  stream->Add([to = memory->opaque, value, bytes] {
    auto* const words = static_cast<uint32_t*>(View(to));
    const uint64_t whole = bytes / sizeof(uint32_t);
    std::fill_n(words, whole, value);
    std::memcpy(words + whole, &value, bytes % sizeof(uint32_t));
  });
  Ok(status);
}
void MemZero(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* memory, uint64_t bytes, TF_Status* status) {
  Fill(stream, memory, 0, bytes, status);
}
void MemSet(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* memory, uint8_t value, uint64_t bytes,
            TF_Status* status) {
  Fill(stream, memory, 0x01010101U * value, bytes, status);
}
void MemSet32(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* memory, uint32_t value, uint64_t bytes,
              TF_Status* status) {
  Fill(stream, memory, value, bytes, status);
}
TF_Bool HostCallback(const SP_Device*, SP_Stream stream, SE_StatusCallbackFn callback, void* argument) {
  stream->Add([=] {
    TF_Status* const status = TF_NewStatus();
    callback(argument, status);
    TF_DeleteStatus(status);
  });
  return true;
}

// ---- the platform

void DeviceCount(const SP_Platform*, int* count, TF_Status* status) {
  *count = Get().devices;
  Ok(status);
}
void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->device_handle = nullptr;
  params->device->ordinal = params->ordinal;
  params->device->hardware_name = "stand-in";
  params->device->device_vendor = "nobody";
  params->device->pci_bus_id = "0000:00:00.0";
  Ok(status);
}
void DestroyDevice(const SP_Platform*, SP_Device*) {}
int32_t NumaNode(const SP_Device*) { return 0; }
int64_t Bandwidth(const SP_Device*) { return static_cast<int64_t>(Get().memory_gb_per_s * 1e9); }
double Gflops(const SP_Device*) { return 2 * 64 * Get().cores * Get().mhz / 1e3; }
void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  params->device_fns->get_numa_node = NumaNode;
  params->device_fns->get_memory_bandwidth = Bandwidth;
  params->device_fns->get_gflops = Gflops;
  Ok(status);
}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}
void CreateExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* status) {
  SP_StreamExecutor* const executor = params->stream_executor;
  executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  executor->allocate = Allocate;
  executor->deallocate = Deallocate;
  executor->host_memory_allocate = HostAllocate;
  executor->host_memory_deallocate = HostDeallocate;
  executor->unified_memory_allocate = NoUnified;
  executor->unified_memory_deallocate = NoUnifiedFree;
  executor->get_allocator_stats = AllocatorStats;
  executor->device_memory_usage = MemoryUsage;
  executor->create_stream = CreateStream;
  executor->destroy_stream = DestroyStream;
  executor->create_stream_dependency = StreamDependency;
  executor->get_stream_status = StreamStatus;
  executor->create_event = CreateEvent;
  executor->destroy_event = DestroyEvent;
  executor->get_event_status = EventStatus;
  executor->record_event = RecordEvent;
  executor->wait_for_event = WaitForEvent;
  executor->create_timer = CreateTimer;
  executor->destroy_timer = DestroyTimer;
  executor->start_timer = StartTimer;
  executor->stop_timer = StopTimer;
  executor->memcpy_dtoh = Out;
  executor->memcpy_htod = In;
  executor->memcpy_dtod = Within;
  executor->sync_memcpy_dtoh = OutNow;
  executor->sync_memcpy_htod = InNow;
  executor->sync_memcpy_dtod = WithinNow;
  executor->block_host_for_event = BlockForEvent;
  executor->block_host_until_done = BlockUntilDone;
  executor->synchronize_all_activity = SynchronizeAll;
  executor->mem_zero = MemZero;
  executor->memset = MemSet;
  executor->memset32 = MemSet32;
  executor->host_callback = HostCallback;
  Ok(status);
}
void DestroyExecutor(const SP_Platform*, SP_StreamExecutor*) {}
void CreateTimerFns(const SP_Platform*, SP_TimerFns* functions, TF_Status* status) {
  functions->nanoseconds = Nanoseconds;
  Ok(status);
}
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}
void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

void Register(SE_PlatformRegistrationParams* params, TF_Status* status) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STANDIN";
  params->platform->type = "GPU";
  params->platform->supports_unified_memory = false;
  params->platform->use_bfc_allocator = true;
  params->platform->force_memory_growth = false;
  SP_PlatformFns* const functions = params->platform_fns;
  functions->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  functions->get_device_count = DeviceCount;
  functions->create_device = CreateDevice;
  functions->destroy_device = DestroyDevice;
  functions->create_device_fns = CreateDeviceFns;
  functions->destroy_device_fns = DestroyDeviceFns;
  functions->create_stream_executor = CreateExecutor;
  functions->destroy_stream_executor = DestroyExecutor;
  functions->create_timer_fns = CreateTimerFns;
  functions->destroy_timer_fns = DestroyTimerFns;
  params->destroy_platform = DestroyPlatform;
  params->destroy_platform_fns = DestroyPlatformFns;
  Ok(status);
}

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) void SE_InitPlugin(SE_PlatformRegistrationParams* params,
                                                                     TF_Status* status) {
  standin::Register(params, status);
}
