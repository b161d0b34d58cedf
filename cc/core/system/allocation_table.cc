#include "cc/core/system/allocation_table.h"

#include <cstdlib>

namespace lms {
namespace {

constexpr size_t kFirstCapacity = 64;

}  // namespace

AllocationTable::~AllocationTable() {
  for (Shard& shard : shards_) std::free(shard.entries);
}

uint64_t AllocationTable::Hash(uintptr_t key) noexcept {
  // Pointers are aligned to 16 bytes or more: mix, so that low bits (the slot) and high bits (the shard) both differ.
  uint64_t hash = static_cast<uint64_t>(key) >> 4;
  hash *= 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 32);
}

// The slot of `key`, or the free slot where it would go. Needs at least one free slot.
size_t AllocationTable::Shard::Find(uintptr_t key, uint64_t hash) const noexcept {
  const size_t mask = capacity - 1;
  size_t slot = static_cast<size_t>(hash) & mask;
  while (entries[slot].key != 0 && entries[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

bool AllocationTable::Shard::Grow() noexcept {
  const size_t new_capacity = capacity == 0 ? kFirstCapacity : capacity * 2;
  auto* new_entries = static_cast<Entry*>(std::calloc(new_capacity, sizeof(Entry)));
  if (new_entries == nullptr) return false;
  Entry* const old_entries = entries;
  const size_t old_capacity = capacity;
  entries = new_entries;
  capacity = new_capacity;
  for (size_t i = 0; i < old_capacity; ++i) {
    const Entry& entry = old_entries[i];
    if (entry.key != 0) entries[Find(entry.key, Hash(entry.key))] = entry;
  }
  std::free(old_entries);
  return true;
}

bool AllocationTable::Insert(const void* pointer, int64_t bytes, int64_t* replaced) noexcept {
  const auto key = reinterpret_cast<uintptr_t>(pointer);
  const uint64_t hash = Hash(key);
  Shard& shard = ShardOf(hash);
  *replaced = 0;
  const std::lock_guard<std::mutex> lock(shard.mutex);
  // At most three quarters full; a growth refused is no harm while a slot stays free.
  if ((shard.size + 1) * 4 > shard.capacity * 3 && !shard.Grow() && shard.size + 1 >= shard.capacity) return false;
  Entry& entry = shard.entries[shard.Find(key, hash)];
  if (entry.key == 0) {
    entry.key = key;
    ++shard.size;
  } else {
    *replaced = entry.bytes;
  }
  entry.bytes = bytes;
  return true;
}

int64_t AllocationTable::Remove(const void* pointer) noexcept {
  const auto key = reinterpret_cast<uintptr_t>(pointer);
  const uint64_t hash = Hash(key);
  Shard& shard = ShardOf(hash);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.capacity == 0) return -1;
  const size_t mask = shard.capacity - 1;
  size_t hole = shard.Find(key, hash);
  if (shard.entries[hole].key == 0) return -1;
  const int64_t bytes = shard.entries[hole].bytes;
  // Close the hole: move back each later entry of the run that would no longer be found past it.
  for (size_t next = (hole + 1) & mask; shard.entries[next].key != 0; next = (next + 1) & mask) {
    const size_t home = static_cast<size_t>(Hash(shard.entries[next].key)) & mask;
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      shard.entries[hole] = shard.entries[next];
      hole = next;
    }
  }
  shard.entries[hole] = Entry{0, 0};
  --shard.size;
  return bytes;
}

size_t AllocationTable::Size() noexcept {
  size_t size = 0;
  for (Shard& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    size += shard.size;
  }
  return size;
}

}  // namespace lms
