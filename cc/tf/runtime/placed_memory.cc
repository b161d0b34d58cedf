#include "cc/tf/runtime/placed_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cc/core/base/arena_unit.h"
#include "cc/core/system/virtual_table.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/profiler/lib/scoped_memory_debug_annotation.h"

namespace lms {
namespace {

using ::tensorflow::AllocationAttributes;
using ::tensorflow::Allocator;
using ::tensorflow::BFCAllocator;

using PlacedAllocateFunction = void* (*)(Allocator*, size_t, size_t, const AllocationAttributes&);
using PlacedDeallocateFunction = void (*)(Allocator*, void*);
using PlacedSizeFunction = size_t (*)(const Allocator*, const void*);
using PlacedIdFunction = int64_t (*)(const Allocator*, const void*);

// As long as TensorFlow's own allocator waits for memory before it says that there is none.
constexpr std::chrono::seconds kRetry(10);
// For so long a tensor waits for its own place before it takes another's.
constexpr std::chrono::milliseconds kPatience(200);
constexpr size_t kMostInVain = 50;  // tensors that have waited in vain: then none does any more

int64_t RoundedUp(size_t bytes) { return InArenaUnits(static_cast<int64_t>(bytes)); }

// A view in some versions of TensorFlow, else a pointer.
template <typename Name>
std::string TextOf(const Name& name) {
  if constexpr (std::is_pointer_v<Name>) {
    return name == nullptr ? "" : std::string(name);
  } else {
    return std::string(name);
  }
}

// The op in which this thread asks for memory: TensorFlow notes it. "": none.
std::string AskingOp() {
  return TextOf(tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation().pending_op_name);
}

// A tensor in a block.
struct Tenant {
  Place place;
  size_t asked = 0;
  int64_t id = 0;
};

struct Key {
  std::string op;
  int64_t bytes;
  bool operator==(const Key& other) const { return bytes == other.bytes && op == other.op; }
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    return std::hash<std::string>()(key.op) ^ (std::hash<int64_t>()(key.bytes) * 31);
  }
};

struct Step {
  int64_t number = 0;
  std::vector<int64_t> blocks;
  std::unordered_map<Key, std::vector<Place>, KeyHash> wishes;
};

// One allocator that was given a table. Never freed: it outlives static destructors.
class Placer {
 public:
  PlacedAllocateFunction allocate = nullptr;
  PlacedDeallocateFunction deallocate = nullptr;
  PlacedSizeFunction requested_size = nullptr;
  PlacedSizeFunction allocated_size = nullptr;
  PlacedIdFunction allocation_id = nullptr;
  VirtualTableCopy table;

  explicit Placer(BFCAllocator* allocator) : allocator_(allocator) {}

  BFCAllocator* allocator() const { return allocator_; }

  void Add(int64_t number, PlacedStep step) {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_.push_back({number, std::move(step.blocks), {}});
    for (const PlacedStep::Tensor& tensor : step.tensors) {
      steps_.back().wishes[{tensor.op, tensor.bytes}].push_back(tensor.place);
      least_bytes_.store(std::min(least_bytes_.load(), tensor.bytes));
    }
    if (steps_.size() > kMostPlacedSteps) steps_.pop_front();
  }

  // False: they are not of this allocator, or kept no longer.
  bool NoteRun(int64_t run, int64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (StepOf(number) == nullptr) return false;
    runs_.emplace_back(run, number);
    if (runs_.size() > kMostPlacedRuns) runs_.pop_front();
    noted_.store(true, std::memory_order_release);
    return true;
  }

  void* Allocate(size_t alignment, size_t bytes, const AllocationAttributes& attributes) {
    // Who says when memory may be used again wants it from whoever keeps account of that.
    if (attributes.freed_by_func != nullptr || bytes == 0) return allocate(allocator_, alignment, bytes, attributes);
    if (void* const placed = AtItsPlace(bytes)) return placed;
    if (!active_.load(std::memory_order_acquire)) return allocate(allocator_, alignment, bytes, attributes);
    const AllocationAttributes once(false, attributes.allocation_will_be_logged, nullptr);
    const auto end = std::chrono::steady_clock::now() + kRetry;
    for (;;) {
      // It logs what it refuses: what cannot be had is not asked for.
      void* const from_allocator = HasLeft(bytes) ? allocate(allocator_, alignment, bytes, once) : nullptr;
      if (from_allocator != nullptr) return from_allocator;
      std::unique_lock<std::mutex> lock(mutex_);
      if (attributes.retry_on_failure) {
        if (void* const placed = SoonAtItsPlace(bytes, &lock)) return placed;
        if (space_.empty()) GiveBlocks();
      }
      if (void* const in_block = Anywhere(bytes)) return in_block;
      if (blocks_.empty()) {
        lock.unlock();
        return allocate(allocator_, alignment, bytes, attributes);
      }
      const uint64_t seen = released_;
      const auto more = [&] { return released_ != seen; };
      if (!attributes.retry_on_failure || !changed_.wait_until(lock, end, more)) break;
    }
    return allocate(allocator_, alignment, bytes, once);  // logs why
  }

  void Deallocate(void* pointer) {
    if (!active_.load(std::memory_order_acquire)) {
      deallocate(allocator_, pointer);
      return;
    }
    if (!Release(pointer)) {
      deallocate(allocator_, pointer);
      const std::lock_guard<std::mutex> lock(mutex_);
      ++released_;
    }
    changed_.notify_all();
  }

  // Of what is in a block.
  std::optional<Tenant> Find(const void* pointer) {
    if (!active_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tenants_.find(pointer);
    return found == tenants_.end() ? std::nullopt : std::optional<Tenant>(found->second);
  }

 private:
  const Step* StepOf(int64_t number) const {
    const auto found =
        std::find_if(steps_.begin(), steps_.end(), [number](const Step& one) { return one.number == number; });
    return found == steps_.end() ? nullptr : &*found;
  }

  // Perhaps not in one piece.
  bool HasLeft(size_t bytes) {
    const auto stats = allocator_->GetStats();
    return !stats || !stats->bytes_limit ||
           stats->bytes_in_use + static_cast<int64_t>(bytes) <= static_cast<int64_t>(*stats->bytes_limit);
  }

  // False: it is in no block.
  bool Release(const void* pointer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tenants_.find(pointer);
    if (found == tenants_.end()) return false;
    space_.Give(found->second.place);
    tenants_.erase(found);
    if (space_.empty()) GiveBlocks();
    ++released_;
    return true;
  }

  void* AtItsPlace(size_t bytes) {
    if (!noted_.load(std::memory_order_acquire) || RoundedUp(bytes) < least_bytes_.load()) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const Wish wish = WishOf(bytes);
    if (wish.places == nullptr || (blocks_.empty() && !TakeBlocks(*wish.step))) return nullptr;
    if (void* const placed = TakeOneOf(wish, bytes)) return placed;
    ++counts.displaced;
    if (space_.empty()) GiveBlocks();
    return nullptr;
  }

  // Of a tensor that has been displaced, and for which there is no room but in a block.
  void* SoonAtItsPlace(size_t bytes, std::unique_lock<std::mutex>* lock) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const Wish wish = WishOf(bytes);
      if (wish.places == nullptr || (blocks_.empty() && !TakeBlocks(*wish.step))) return nullptr;
      if (owner_ != wish.step->number) return nullptr;
      if (void* const placed = TakeOneOf(wish, bytes)) return placed;
      const Key key = {AskingOp(), RoundedUp(bytes)};
      if (in_vain_.size() >= kMostInVain || in_vain_.count(key) > 0) return nullptr;
      const uint64_t seen = released_;
      if (changed_.wait_until(*lock, end, [&] { return released_ != seen; })) continue;
      in_vain_.insert(key);
      return nullptr;
    }
  }

  struct Wish {
    const Step* step = nullptr;
    const std::vector<Place>* places = nullptr;  // null: none
  };

  // Of the op that asks, in the step whose run it belongs to.
  Wish WishOf(size_t bytes) const {
    const int64_t run = tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation().pending_step_id;
    const auto noted = std::find_if(runs_.rbegin(), runs_.rend(), [run](const auto& one) { return one.first == run; });
    const Step* const step = noted == runs_.rend() ? nullptr : StepOf(noted->second);
    if (step == nullptr) return {};
    const auto found = step->wishes.find({AskingOp(), RoundedUp(bytes)});
    return found == step->wishes.end() ? Wish() : Wish{step, &found->second};
  }

  void* TakeOneOf(const Wish& wish, size_t bytes) {
    if (owner_ != wish.step->number) return nullptr;
    for (const Place& place : *wish.places) {
      if (blocks_[place.block] == nullptr || !space_.Take(place, RoundedUp(bytes))) continue;
      ++counts.placed;
      return HandOut(place, bytes);
    }
    return nullptr;
  }

  void* Anywhere(size_t bytes) {
    const std::optional<Place> place = space_.TakeAnywhere(RoundedUp(bytes));
    if (!place) return nullptr;
    ++counts.overflowed;
    return HandOut(*place, bytes);
  }

  void* HandOut(const Place& place, size_t bytes) {
    char* const pointer = blocks_[place.block] + place.offset;
    tenants_[pointer] = {place, bytes, ++last_id_};
    return pointer;
  }

  // False: of none of them there is room.
  bool TakeBlocks(const Step& step) {
    const AllocationAttributes once(false, true, nullptr);
    std::vector<int64_t> sizes;
    bool any = false;
    for (const int64_t bytes : step.blocks) {
      auto* const block =
          static_cast<char*>(allocate(allocator_, Allocator::kAllocatorAlignment, static_cast<size_t>(bytes), once));
      if (block == nullptr) ++counts.refused;
      any = any || block != nullptr;
      blocks_.push_back(block);
      sizes.push_back(block == nullptr ? 0 : bytes);
    }
    if (!any) {
      blocks_.clear();
      return false;
    }
    owner_ = step.number;
    space_ = BlockSpace(std::move(sizes));
    active_.store(true, std::memory_order_release);
    return true;
  }

  void GiveBlocks() {
    for (char* const block : blocks_) {
      if (block != nullptr) deallocate(allocator_, block);
    }
    blocks_.clear();
    space_ = BlockSpace();
    active_.store(false, std::memory_order_release);
  }

 public:
  struct {
    std::atomic<int64_t> placed{0}, displaced{0}, overflowed{0}, refused{0};
  } counts;

 private:
  BFCAllocator* const allocator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;  // this and all that follows is guarded by mutex_, but for what is atomic
  std::deque<std::pair<int64_t, int64_t>> runs_;  // of graphs, and the numbers of their places
  std::atomic<bool> noted_{false};                // there has been one
  std::atomic<int64_t> least_bytes_{INT64_MAX};   // that ever had a place
  std::atomic<bool> active_{false};               // there are blocks
  int64_t owner_ = 0;                             // the number of the step whose they are
  std::vector<char*> blocks_;                     // null: not to be had
  BlockSpace space_;
  std::unordered_map<const void*, Tenant> tenants_;
  std::unordered_set<Key, KeyHash> in_vain_;  // who has waited for its place: once is enough
  int64_t last_id_ = int64_t{1} << 48;        // far from those of chunks
  uint64_t released_ = 0;
};

struct Placers {
  static constexpr size_t kMost = 64;
  std::mutex mutex;  // of those who add
  std::array<Placer*, kMost> placers{};
  std::atomic<size_t> count{0};
};

Placers& GetPlacers() {
  static auto* placers = new Placers;
  return *placers;
}

Placer* Find(const Allocator* allocator) {
  Placers& all = GetPlacers();
  const size_t count = all.count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (all.placers[i]->allocator() == allocator) return all.placers[i];
  }
  return nullptr;
}

void* PlacedAllocate(Allocator* allocator, size_t alignment, size_t bytes, const AllocationAttributes& attributes) {
  return Find(allocator)->Allocate(alignment, bytes, attributes);
}

void PlacedDeallocate(Allocator* allocator, void* pointer) { Find(allocator)->Deallocate(pointer); }

size_t PlacedRequestedSize(const Allocator* allocator, const void* pointer) {
  Placer* const placer = Find(allocator);
  const std::optional<Tenant> tenant = placer->Find(pointer);
  return tenant ? tenant->asked : placer->requested_size(allocator, pointer);
}

size_t PlacedAllocatedSize(const Allocator* allocator, const void* pointer) {
  Placer* const placer = Find(allocator);
  const std::optional<Tenant> tenant = placer->Find(pointer);
  return tenant ? static_cast<size_t>(RoundedUp(tenant->asked)) : placer->allocated_size(allocator, pointer);
}

int64_t PlacedAllocationId(const Allocator* allocator, const void* pointer) {
  Placer* const placer = Find(allocator);
  const std::optional<Tenant> tenant = placer->Find(pointer);
  return tenant ? tenant->id : placer->allocation_id(allocator, pointer);
}

}  // namespace

std::string WhyNoPlaces(tsl::BFCAllocator* allocator) {
  Placers& all = GetPlacers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (Placer* const placer = Find(allocator)) {
    // Another may have come to be where one was.
    if (TableOf(allocator) != placer->table.table()) SetTable(allocator, placer->table.table());
    return "";
  }
  const size_t index = all.count.load(std::memory_order_relaxed);
  if (index == Placers::kMost) return "there are more allocators than expected";
  auto placer = std::make_unique<Placer>(allocator);
  const int allocate = VirtualEntry(
      static_cast<void* (Allocator::*)(size_t, size_t, const AllocationAttributes&)>(&Allocator::AllocateRaw));
  const int deallocate = VirtualEntry(static_cast<void (Allocator::*)(void*)>(&Allocator::DeallocateRaw));
  const int requested_size = VirtualEntry(&Allocator::RequestedSize);
  const int allocated_size = VirtualEntry(&Allocator::AllocatedSize);
  const int allocation_id = VirtualEntry(&Allocator::AllocationId);
  const std::array<int, 5> needed = {allocate, deallocate, requested_size, allocated_size, allocation_id};
  std::string reason = CopyTable(allocator, needed.data(), needed.size(), &placer->table);
  if (!reason.empty()) return reason;
  void** const original = TableOf(allocator);
  VirtualTableCopy* const table = &placer->table;
  ReplaceEntry(original, table, allocate, &PlacedAllocate, &placer->allocate);
  ReplaceEntry(original, table, deallocate, &PlacedDeallocate, &placer->deallocate);
  ReplaceEntry(original, table, requested_size, &PlacedRequestedSize, &placer->requested_size);
  ReplaceEntry(original, table, allocated_size, &PlacedAllocatedSize, &placer->allocated_size);
  ReplaceEntry(original, table, allocation_id, &PlacedAllocationId, &placer->allocation_id);
  all.placers[index] = placer.release();
  all.count.store(index + 1, std::memory_order_release);
  SetTable(allocator, table->table());
  return "";
}

int64_t PlaceStep(tsl::BFCAllocator* allocator, PlacedStep step) {
  static std::atomic<int64_t> last{0};
  const int64_t number = ++last;
  if (Placer* const placer = Find(allocator)) placer->Add(number, std::move(step));
  return number;
}

void NotePlacedRun(int64_t run, int64_t number) {
  Placers& all = GetPlacers();
  for (size_t i = 0; i < all.count.load(std::memory_order_acquire); ++i) {
    if (all.placers[i]->NoteRun(run, number)) return;
  }
}

PlacedCounts CountsOfPlaces() {
  PlacedCounts sum;
  Placers& all = GetPlacers();
  for (size_t i = 0; i < all.count.load(std::memory_order_acquire); ++i) {
    const auto& counts = all.placers[i]->counts;
    sum.placed += counts.placed;
    sum.displaced += counts.displaced;
    sum.overflowed += counts.overflowed;
    sum.refused += counts.refused;
  }
  return sum;
}

}  // namespace lms
