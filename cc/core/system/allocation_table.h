// AllocationTable: which pointers are in use, with the bytes asked for each.
//
// Contract: Insert records a pointer (a pointer already there is replaced), Remove forgets it. Both tell what was
// recorded before, so that the caller can keep a running sum. Null pointers must not be given.
// It allocates with calloc only, throws nothing, and calls nothing of TensorFlow, so it may be used inside an
// allocator. Where memory for the table itself is refused, Insert returns false and the pointer stays unknown.
//
// Complexity: O(1) expected. Thread-safety: all methods; pointers are spread over independently locked shards.

#ifndef LMS_CC_CORE_SYSTEM_ALLOCATION_TABLE_H_
#define LMS_CC_CORE_SYSTEM_ALLOCATION_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lms {

class AllocationTable {
 public:
  AllocationTable() = default;
  ~AllocationTable();
  AllocationTable(const AllocationTable&) = delete;
  AllocationTable& operator=(const AllocationTable&) = delete;

  // Records `bytes` for `pointer`. `*replaced` is what was recorded for it before, 0 if nothing was.
  bool Insert(const void* pointer, int64_t bytes, int64_t* replaced) noexcept;

  // Forgets `pointer` and returns the bytes recorded for it, or -1 when it is unknown.
  int64_t Remove(const void* pointer) noexcept;

  // The number of pointers recorded. Takes every lock in turn: for tests.
  size_t Size() noexcept;

 private:
  struct Entry {
    uintptr_t key;  // 0: free
    int64_t bytes;
  };

  // Open addressing with linear probing; removal shifts the following entries back, so there are no tombstones.
  struct alignas(64) Shard {
    std::mutex mutex;
    Entry* entries = nullptr;
    size_t capacity = 0;  // a power of two, or 0
    size_t size = 0;

    size_t Find(uintptr_t key, uint64_t hash) const noexcept;
    bool Grow() noexcept;
  };

  static constexpr int kShardBits = 6;
  static uint64_t Hash(uintptr_t key) noexcept;
  Shard& ShardOf(uint64_t hash) noexcept { return shards_[hash >> (64 - kShardBits)]; }

  std::array<Shard, size_t{1} << kShardBits> shards_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_ALLOCATION_TABLE_H_
