#include "cc/tf/runtime/memory_counter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "cc/core/system/allocation_table.h"
#include "cc/core/system/virtual_table.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/platform/numa.h"
#include "tensorflow/core/profiler/lib/scoped_memory_debug_annotation.h"

namespace lms {
namespace {

using ::tensorflow::AllocationAttributes;
using ::tensorflow::Allocator;

using AllocateFunction = void* (*)(Allocator*, size_t, size_t);
using AllocateWithAttributesFunction = void* (*)(Allocator*, size_t, size_t, const AllocationAttributes&);
using DeallocateFunction = void (*)(Allocator*, void*);
using DeallocateSizedFunction = void (*)(Allocator*, void*, size_t, size_t);

// One allocator that is being counted. Written once, before the allocator's table is changed, and never freed.
struct Tracked {
  Allocator* allocator = nullptr;
  AllocateFunction allocate = nullptr;
  AllocateWithAttributesFunction allocate_with_attributes = nullptr;
  DeallocateFunction deallocate = nullptr;
  DeallocateSizedFunction deallocate_sized = nullptr;
  VirtualTableCopy table;
};

constexpr size_t kMaxTracked = 16;

// Everything that lives as long as the process: allocators outlive static destructors, so none may run here.
struct Counter {
  AllocationTable pointers;
  std::atomic<int64_t> in_use{0};
  std::atomic<int64_t> peak{0};
  std::atomic<bool> scope_open{false};
  std::atomic<int64_t> scope_start{0};
  std::atomic<int64_t> scope_peak{0};
  std::mutex events_mutex;
  std::vector<AllocationEvent> events;  // of the open scope; guarded by events_mutex, like the next
  bool events_lost = false;
  bool names_wanted = false;
  std::vector<std::string> names;  // of the ops that asked, by event, where they are wanted
  std::atomic<int64_t> missed{0};  // bytes of allocations the table had no room for

  std::mutex start_mutex;
  std::string failure;  // guarded by start_mutex; once set, final
  std::array<Tracked, kMaxTracked> tracked;
  std::atomic<size_t> tracked_count{0};
};

Counter& GetCounter() {
  static auto* counter = new Counter;
  return *counter;
}

// Calls seen on this thread; an allocator that passes a call on to another one is counted once, at the outermost.
struct ThreadCalls {
  int depth = 0;
  uint64_t allocated = 0;
  uint64_t deallocated = 0;
};
thread_local ThreadCalls thread_calls;

class Nested {
 public:
  Nested() { ++thread_calls.depth; }
  ~Nested() { --thread_calls.depth; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  bool outermost() const { return thread_calls.depth == 1; }
};

const Tracked& TrackedOf(const Counter& counter, const Allocator* allocator) {
  // An allocator whose table was changed is always found; there is one, or one per NUMA node.
  size_t i = 0;
  while (counter.tracked[i].allocator != allocator && i + 1 < kMaxTracked) ++i;
  return counter.tracked[i];
}

void Raise(std::atomic<int64_t>& highest, int64_t now) {
  int64_t peak = highest.load(std::memory_order_relaxed);
  while (now > peak && !highest.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Add(Counter& counter, int64_t bytes) {
  const int64_t now = counter.in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  Raise(counter.peak, now);
  if (counter.scope_open.load(std::memory_order_relaxed)) Raise(counter.scope_peak, now);
}

// Which run of a graph asks for memory in this thread: TensorFlow notes it for those who look for what was not freed.
int64_t CurrentRun() { return tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation().pending_step_id; }

void NoteEvent(Counter& counter, const AllocationEvent& event) {
  if (!counter.scope_open.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(counter.events_mutex);
  try {
    counter.events.push_back(event);
    if (!counter.names_wanted) return;
    counter.names.emplace_back(tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation().pending_op_name);
  } catch (...) {
    counter.events_lost = true;
  }
}

void CountAllocation(Counter& counter, const void* pointer, size_t bytes) {
  ++thread_calls.allocated;
  if (pointer == nullptr) return;
  int64_t replaced = 0;
  if (counter.pointers.Insert(pointer, static_cast<int64_t>(bytes), &replaced)) {
    Add(counter, static_cast<int64_t>(bytes) - replaced);
    if (bytes > 0) NoteEvent(counter, {pointer, static_cast<int64_t>(bytes), CurrentRun()});
  } else {
    counter.missed.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
}

// Before the memory is released: afterwards another thread may already have it again.
void CountDeallocation(Counter& counter, const void* pointer) {
  ++thread_calls.deallocated;
  if (pointer == nullptr) return;
  const int64_t bytes = counter.pointers.Remove(pointer);
  if (bytes <= 0) return;
  counter.in_use.fetch_sub(bytes, std::memory_order_relaxed);
  NoteEvent(counter, {pointer, -bytes});
}

void* CountedAllocate(Allocator* allocator, size_t alignment, size_t num_bytes) {
  Counter& counter = GetCounter();
  const Nested nested;
  void* const pointer = TrackedOf(counter, allocator).allocate(allocator, alignment, num_bytes);
  if (nested.outermost()) CountAllocation(counter, pointer, num_bytes);
  return pointer;
}

void* CountedAllocateWithAttributes(Allocator* allocator, size_t alignment, size_t num_bytes,
                                    const AllocationAttributes& attributes) {
  Counter& counter = GetCounter();
  const Nested nested;
  void* const pointer =
      TrackedOf(counter, allocator).allocate_with_attributes(allocator, alignment, num_bytes, attributes);
  if (nested.outermost()) CountAllocation(counter, pointer, num_bytes);
  return pointer;
}

void CountedDeallocate(Allocator* allocator, void* pointer) {
  Counter& counter = GetCounter();
  CountDeallocation(counter, pointer);
  TrackedOf(counter, allocator).deallocate(allocator, pointer);
}

void CountedDeallocateSized(Allocator* allocator, void* pointer, size_t alignment, size_t num_bytes) {
  Counter& counter = GetCounter();
  CountDeallocation(counter, pointer);
  TrackedOf(counter, allocator).deallocate_sized(allocator, pointer, alignment, num_bytes);
}

// The entries of Allocator's virtual table that are replaced.
struct Entries {
  int allocate = -1;
  int allocate_with_attributes = -1;
  int deallocate = -1;
  int deallocate_sized = -1;  // -1 also where this TensorFlow has no such overload
};

template <typename T, typename = void>
struct SizedDeallocation {
  static constexpr bool kExists = false;
  static int Entry() { return -1; }
};
template <typename T>
struct SizedDeallocation<T, std::void_t<decltype(std::declval<T&>().DeallocateRaw(nullptr, size_t{}, size_t{}))>> {
  static constexpr bool kExists = true;
  static int Entry() { return VirtualEntry(static_cast<void (T::*)(void*, size_t, size_t)>(&T::DeallocateRaw)); }
};

Entries FindEntries() {
  Entries entries;
  entries.allocate = VirtualEntry(static_cast<void* (Allocator::*)(size_t, size_t)>(&Allocator::AllocateRaw));
  entries.allocate_with_attributes = VirtualEntry(
      static_cast<void* (Allocator::*)(size_t, size_t, const AllocationAttributes&)>(&Allocator::AllocateRaw));
  entries.deallocate = VirtualEntry(static_cast<void (Allocator::*)(void*)>(&Allocator::DeallocateRaw));
  entries.deallocate_sized = SizedDeallocation<Allocator>::Entry();
  return entries;
}

// Are a call that allocates and one that frees now seen?
bool Works(Allocator* allocator) {
  const ThreadCalls before = thread_calls;
  void* const pointer = allocator->AllocateRaw(Allocator::kAllocatorAlignment, Allocator::kAllocatorAlignment);
  if (pointer == nullptr) return false;
  allocator->DeallocateRaw(pointer);
  return thread_calls.allocated == before.allocated + 1 && thread_calls.deallocated > before.deallocated;
}

// Requires: start_mutex is held and `allocator` is not tracked.
std::string Track(Counter& counter, Allocator* allocator) {
  const size_t index = counter.tracked_count.load(std::memory_order_relaxed);
  if (index == kMaxTracked) return "there are more CPU allocators than expected";
  const Entries entries = FindEntries();
  std::vector<int> needed = {entries.allocate, entries.allocate_with_attributes, entries.deallocate};
  if (SizedDeallocation<Allocator>::kExists) needed.push_back(entries.deallocate_sized);
  Tracked& tracked = counter.tracked[index];
  std::string reason = CopyTable(allocator, needed.data(), needed.size(), &tracked.table);
  if (!reason.empty()) return reason;

  void** const original = TableOf(allocator);
  VirtualTableCopy* const table = &tracked.table;
  ReplaceEntry(original, table, entries.allocate, &CountedAllocate, &tracked.allocate);
  ReplaceEntry(original, table, entries.allocate_with_attributes, &CountedAllocateWithAttributes,
               &tracked.allocate_with_attributes);
  ReplaceEntry(original, table, entries.deallocate, &CountedDeallocate, &tracked.deallocate);
  if (SizedDeallocation<Allocator>::kExists) {
    ReplaceEntry(original, table, entries.deallocate_sized, &CountedDeallocateSized, &tracked.deallocate_sized);
  }
  tracked.allocator = allocator;
  counter.tracked_count.store(index + 1, std::memory_order_release);
  SetTable(allocator, table->table());
  if (!Works(allocator)) {
    SetTable(allocator, original);  // The entry stays: a call on another thread may still be using it.
    return "the allocator did not call through its virtual table";
  }
  return "";
}

bool IsTracked(const Counter& counter, const Allocator* allocator) {
  const size_t count = counter.tracked_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (counter.tracked[i].allocator == allocator) return true;
  }
  return false;
}

std::vector<Allocator*> CpuAllocators() {
  std::vector<Allocator*> allocators = {tensorflow::cpu_allocator()};
  auto* const state = tensorflow::ProcessState::singleton();
  // Without NUMA affinity every node has the same one.
  for (int node = 0; node < tensorflow::port::NUMANumNodes(); ++node) {
    allocators.push_back(state->GetCPUAllocator(node));
  }
  return allocators;
}

}  // namespace

std::string StartCounting() {
  Counter& counter = GetCounter();
  const std::lock_guard<std::mutex> lock(counter.start_mutex);
  if (!counter.failure.empty()) return counter.failure;
  const bool first = counter.tracked_count.load(std::memory_order_relaxed) == 0;
  for (Allocator* const allocator : CpuAllocators()) {
    if (allocator == nullptr) return "TensorFlow has no CPU allocator";
    if (IsTracked(counter, allocator)) continue;
    const std::string reason = Track(counter, allocator);
    if (!reason.empty()) {
      counter.failure = "memory use cannot be counted: " + reason;
      return counter.failure;
    }
  }
  if (first) ResetPeak();
  const int64_t missed = counter.missed.load(std::memory_order_relaxed);
  if (missed > 0) {
    return "memory use is no longer counted in full: " + std::to_string(missed) +
           " bytes could not be recorded for want of memory";
  }
  return "";
}

void ResetPeak() {
  Counter& counter = GetCounter();
  counter.peak.store(counter.in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

int64_t PeakBytes() { return GetCounter().peak.load(std::memory_order_relaxed); }

bool BeginPeakScope(bool holders) {
  Counter& counter = GetCounter();
  bool closed = false;
  // Values that an allocation on another thread raises between the two lines are above the start anyway.
  if (counter.scope_open.load()) return false;
  {
    const std::lock_guard<std::mutex> lock(counter.events_mutex);
    counter.events.clear();
    counter.events_lost = false;
    counter.names_wanted = holders;
    counter.names.clear();
  }
  if (!counter.scope_open.compare_exchange_strong(closed, true)) return false;
  const int64_t now = counter.in_use.load(std::memory_order_relaxed);
  counter.scope_start.store(now, std::memory_order_relaxed);
  counter.scope_peak.store(now, std::memory_order_relaxed);
  return true;
}

int64_t EndPeakScope() {
  Counter& counter = GetCounter();
  if (!counter.scope_open.load()) return 0;
  const int64_t rise = counter.scope_peak.load() - counter.scope_start.load();
  counter.scope_open.store(false);
  return rise;
}

std::vector<HeldBlock> EndPeakScopeWithHolders() {
  Counter& counter = GetCounter();
  EndPeakScope();
  const std::lock_guard<std::mutex> lock(counter.events_mutex);
  const std::vector<AllocationEvent>& events = counter.events;
  if (counter.events_lost || counter.names.size() != events.size()) return {};
  // Runs until as much is held as `most`, or to the end; the largest sum on the way is returned.
  std::vector<bool> live;  // by event
  const auto run = [&](int64_t most) {
    std::unordered_map<const void*, size_t> event_of;  // by pointer
    live.assign(events.size(), false);
    int64_t sum = 0, highest = 0;
    for (size_t i = 0; i < events.size() && sum != most; ++i) {
      if (events[i].bytes == 0) continue;  // NoteTaken
      if (events[i].bytes > 0) {
        live[i] = true;
        event_of[events[i].pointer] = i;
        sum += events[i].bytes;
      } else if (const auto found = event_of.find(events[i].pointer); found != event_of.end()) {
        live[found->second] = false;
        event_of.erase(found);
        sum += events[i].bytes;
      }
      highest = std::max(highest, sum);
    }
    return highest;
  };
  run(run(-1));
  std::vector<HeldBlock> held;
  for (size_t i = 0; i < events.size(); ++i) {
    if (live[i]) held.push_back({events[i].bytes, counter.names[i]});
  }
  std::sort(held.begin(), held.end(), [](const HeldBlock& a, const HeldBlock& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.op < b.op;
  });
  return held;
}

StepPeak EndPeakScopeOfStep(const std::vector<int64_t>& batch) {
  Counter& counter = GetCounter();
  StepPeak whole;
  whole.bytes = EndPeakScope();
  std::vector<AllocationEvent> events;
  const std::lock_guard<std::mutex> lock(counter.events_mutex);
  events.swap(counter.events);
  return counter.events_lost ? whole : PeakOfStep(events, batch);
}

int64_t EndPeakScopeBesideOthers() {
  Counter& counter = GetCounter();
  const int64_t whole = EndPeakScope();
  std::vector<AllocationEvent> events;
  const std::lock_guard<std::mutex> lock(counter.events_mutex);
  events.swap(counter.events);
  return counter.events_lost ? whole : PeakBesideOthers(events);
}

void NoteTaken(const void* block, int64_t bytes, int64_t run) { NoteEvent(GetCounter(), {block, 0, run, bytes}); }

int64_t BytesInUse() { return GetCounter().in_use.load(std::memory_order_relaxed); }

}  // namespace lms
