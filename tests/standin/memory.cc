#include "tests/standin/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>

#include "tests/standin/settings.h"

namespace standin {
namespace {

struct Block {
  int64_t bytes = 0;
  int device = -1;            // -1: pinned
  std::ptrdiff_t offset = 0;  // from the address to the view
};

struct Blocks {
  std::mutex mutex;
  std::map<const char*, Block> by_address;
  std::map<const char*, int64_t> views;
  std::map<int, int64_t> in_use;  // by device
  int gates = 0;
};

Blocks& AllBlocks() {
  static Blocks* const blocks = new Blocks;
  return *blocks;
}

// Shared, as a process's limits on its own data (RLIMIT_DATA) say nothing of a card's memory.
void* Map(int64_t bytes, int protection, int file) {
  const int flags = MAP_SHARED | MAP_NORESERVE | (file >= 0 ? 0 : MAP_ANONYMOUS);
  void* const address = mmap(nullptr, bytes, protection, flags, file, 0);
  return address == MAP_FAILED ? nullptr : address;
}

// Two mappings of the same memory: the first may not be touched.
void* MapTwice(int64_t bytes, std::ptrdiff_t* offset) {
  const int file = memfd_create("standin", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* address = nullptr;
  void* view = nullptr;
  if (ftruncate(file, bytes) == 0) {
    address = Map(bytes, PROT_NONE, file);
    view = Map(bytes, PROT_READ | PROT_WRITE, file);
  }
  close(file);
  if (address == nullptr || view == nullptr) return nullptr;
  *offset = static_cast<char*>(view) - static_cast<char*>(address);
  return address;
}

// The block that holds the address, under the lock; null where none does.
const std::pair<const char* const, Block>* Find(const Blocks& blocks, const void* address) {
  auto found = blocks.by_address.upper_bound(static_cast<const char*>(address));
  if (found == blocks.by_address.begin()) return nullptr;
  --found;
  return address < found->first + found->second.bytes ? &*found : nullptr;
}

void* Add(int device, int64_t bytes, int64_t limit) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  int64_t& in_use = blocks.in_use[device];
  if (bytes <= 0 || bytes > limit - in_use) return nullptr;
  Block block{bytes, device, 0};
  void* const address =
      device >= 0 && Get().guard ? MapTwice(bytes, &block.offset) : Map(bytes, PROT_READ | PROT_WRITE, -1);
  if (address == nullptr) return nullptr;
  in_use += bytes;
  const char* const first = static_cast<const char*>(address);
  blocks.by_address[first] = block;
  if (device >= 0) blocks.views[first + block.offset] = bytes;
  return address;
}

void Remove(void* address) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto found = blocks.by_address.find(static_cast<const char*>(address));
  if (found == blocks.by_address.end()) return;
  const Block block = found->second;
  munmap(address, block.bytes);
  if (block.offset != 0) munmap(static_cast<char*>(address) + block.offset, block.bytes);
  if (block.device >= 0) blocks.views.erase(found->first + block.offset);
  blocks.in_use[block.device] -= block.bytes;
  blocks.by_address.erase(found);
}

int64_t InUse(int device) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  return blocks.in_use[device];
}

void Protect(const Blocks& blocks, int protection) {
  for (const auto& [address, block] : blocks.by_address) {
    if (block.offset != 0) mprotect(const_cast<char*>(address), block.bytes, protection);
  }
}

}  // namespace

void* AllocateOnDevice(int device, int64_t bytes) { return Add(device, bytes, Get().memory_bytes); }
void FreeOnDevice(void* address) { Remove(address); }
int64_t DeviceBytesInUse(int device) { return InUse(device); }

void* FirstAddress(int device) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  for (const auto& [address, block] : blocks.by_address) {
    if (block.device == device) return const_cast<char*>(address);
  }
  return nullptr;
}

void* AllocatePinned(int64_t bytes) { return Add(-1, bytes, Get().pinned_bytes); }
void FreePinned(void* address) { Remove(address); }
int64_t PinnedBytesInUse() { return InUse(-1); }

Owner OwnerOf(const void* address, int64_t bytes) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto* const found = Find(blocks, address);
  if (found == nullptr || static_cast<const char*>(address) + bytes > found->first + found->second.bytes) {
    return Owner::kHost;
  }
  return found->second.device >= 0 ? Owner::kDevice : Owner::kPinned;
}

void* View(const void* address) {
  auto* const bytes = static_cast<char*>(const_cast<void*>(address));
  if (!Get().guard) return bytes;
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto* const found = Find(blocks, address);
  return found == nullptr ? bytes : bytes + found->second.offset;
}

bool IsView(const void* address) {
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  auto found = blocks.views.upper_bound(static_cast<const char*>(address));
  if (found == blocks.views.begin()) return false;
  --found;
  return address < found->first + found->second;
}

Gate::Gate() {
  if (!Get().guard) return;
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  if (blocks.gates++ == 0) Protect(blocks, PROT_READ | PROT_WRITE);
}

Gate::~Gate() {
  if (!Get().guard) return;
  Blocks& blocks = AllBlocks();
  const std::lock_guard<std::mutex> lock(blocks.mutex);
  if (--blocks.gates == 0) Protect(blocks, PROT_NONE);
}

}  // namespace standin
