#include "cc/tf/predict/arena_trace.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cc/core/system/virtual_table.h"
#include "cc/tf/predict/cpu_pool.h"
#include "cc/tf/predict/device_arena.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"

namespace lms {
namespace {

using ::tensorflow::AllocationAttributes;
using ::tensorflow::Allocator;
using ::tensorflow::BFCAllocator;

// The allocators' own.
struct {
  void* (*allocate)(Allocator*, size_t, size_t, const AllocationAttributes&) = nullptr;
  void (*deallocate)(Allocator*, void*) = nullptr;
  void* (*allocate_small)(Allocator*, size_t, size_t) = nullptr;
  void (*deallocate_small)(Allocator*, void*) = nullptr;
} original_calls;

struct Watch {
  BFCAllocator* pool = nullptr;
  std::mutex mutex;  // of requests, while it records, and of all that follows
  std::unordered_map<void*, int64_t> small;
  int64_t small_bytes = 0;
  int64_t pool_bytes = 0;  // of chunks in use, while it records
  bool records = false;
  ArenaTrace trace;

  // Not as a virtual call: one who places tensors (placed_memory.h) answers for them under a lock of his own.
  int64_t BytesOf(void* pointer) const { return static_cast<int64_t>(pool->BFCAllocator::AllocatedSize(pointer)); }
  void NotePeak() { trace.peak_bytes = std::max(trace.peak_bytes, pool_bytes + small_bytes); }
};

// Never freed: it outlives static destructors.
Watch& GetWatch() {
  static auto* watch = new Watch;
  return *watch;
}

// In the library: others may copy the first one again (placed_memory.cc), who take tables of libraries alone.
VirtualTableCopy pool_table;
VirtualTableCopy small_table;

int64_t AddressOf(const void* pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); }

void* SeenAllocate(Allocator* allocator, size_t alignment, size_t bytes, const AllocationAttributes& attributes) {
  Watch& watch = GetWatch();
  std::unique_lock<std::mutex> lock(watch.mutex);
  if (!watch.records || bytes == 0) {
    lock.unlock();
    return original_calls.allocate(allocator, alignment, bytes, attributes);
  }
  const AllocationAttributes once(false, attributes.allocation_will_be_logged, attributes.freed_by_func);
  void* pointer = original_calls.allocate(allocator, alignment, bytes, once);
  if (pointer == nullptr && attributes.retry_on_failure) {
    // It waits for what others release.
    lock.unlock();
    pointer = original_calls.allocate(allocator, alignment, bytes, attributes);
    lock.lock();
  }
  const int64_t chunk = pointer == nullptr ? 0 : watch.BytesOf(pointer);
  watch.trace.requests.push_back({static_cast<int64_t>(bytes), AddressOf(pointer), chunk});
  watch.pool_bytes += chunk;
  watch.NotePeak();
  return pointer;
}

void SeenDeallocate(Allocator* allocator, void* pointer) {
  Watch& watch = GetWatch();
  std::unique_lock<std::mutex> lock(watch.mutex);
  if (watch.records) {
    watch.trace.requests.push_back({0, AddressOf(pointer), 0});
    watch.pool_bytes -= watch.BytesOf(pointer);
  } else {
    lock.unlock();
  }
  original_calls.deallocate(allocator, pointer);
}

void* SeenAllocateSmall(Allocator* allocator, size_t alignment, size_t bytes) {
  Watch& watch = GetWatch();
  void* const pointer = original_calls.allocate_small(allocator, alignment, bytes);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(watch.mutex);
  watch.small[pointer] = static_cast<int64_t>(bytes);
  watch.small_bytes += static_cast<int64_t>(bytes);
  if (watch.records) watch.NotePeak();
  return pointer;
}

void SeenDeallocateSmall(Allocator* allocator, void* pointer) {
  Watch& watch = GetWatch();
  {
    const std::lock_guard<std::mutex> lock(watch.mutex);
    if (const auto found = watch.small.find(pointer); found != watch.small.end()) {
      watch.small_bytes -= found->second;
      watch.small.erase(found);
    }
  }
  original_calls.deallocate_small(allocator, pointer);
}

}  // namespace

std::string WatchPool() {
  Watch& watch = GetWatch();
  const std::optional<CpuPool> pool = CpuPoolOf(tensorflow::cpu_allocator());
  if (!pool || pool->small == nullptr) return "the CPU's memory is not oneDNN's pool";
  if (watch.pool == pool->allocator) return "";
  const int allocate = VirtualEntry(
      static_cast<void* (Allocator::*)(size_t, size_t, const AllocationAttributes&)>(&Allocator::AllocateRaw));
  const int allocate_small = VirtualEntry(static_cast<void* (Allocator::*)(size_t, size_t)>(&Allocator::AllocateRaw));
  const int deallocate = VirtualEntry(static_cast<void (Allocator::*)(void*)>(&Allocator::DeallocateRaw));
  const std::array<int, 3> needed = {allocate, allocate_small, deallocate};
  std::string reason = CopyTable(pool->allocator, needed.data(), needed.size(), &pool_table);
  if (reason.empty()) reason = CopyTable(pool->small, needed.data(), needed.size(), &small_table);
  if (!reason.empty()) return reason;
  void** const original = TableOf(pool->allocator);
  ReplaceEntry(original, &pool_table, allocate, &SeenAllocate, &original_calls.allocate);
  ReplaceEntry(original, &pool_table, deallocate, &SeenDeallocate, &original_calls.deallocate);
  void** const small = TableOf(pool->small);
  ReplaceEntry(small, &small_table, allocate_small, &SeenAllocateSmall, &original_calls.allocate_small);
  ReplaceEntry(small, &small_table, deallocate, &SeenDeallocateSmall, &original_calls.deallocate_small);
  watch.pool = pool->allocator;
  SetTable(pool->allocator, pool_table.table());
  SetTable(pool->small, small_table.table());
  return "";
}

void StartArenaTrace() {
  Watch& watch = GetWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  watch.trace = ArenaTrace();
  const CpuPool pool = *CpuPoolOf(tensorflow::cpu_allocator());
  watch.trace.before = ArenaOf(pool);
  watch.pool_bytes = pool.in_use_bytes;
  watch.trace.bytes_before = watch.pool_bytes + watch.small_bytes;
  watch.records = true;
}

ArenaTrace StopArenaTrace() {
  Watch& watch = GetWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  watch.records = false;
  watch.trace.after = PiecesOf(watch.pool);
  return std::move(watch.trace);
}

}  // namespace lms
