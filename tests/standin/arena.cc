#include "tests/standin/arena.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace standin {
namespace {

struct Allocators {
  std::mutex mutex;
  std::map<int, tsl::BFCAllocator*> by_device;
};
Allocators& All() {
  static Allocators* const allocators = new Allocators;
  return *allocators;
}

}  // namespace

void NoteAllocator(const std::string& device, tensorflow::Allocator* allocator) {
  auto* const bfc = dynamic_cast<tsl::BFCAllocator*>(allocator);
  if (bfc == nullptr) return;
  Allocators& allocators = All();
  const std::lock_guard<std::mutex> lock(allocators.mutex);
  allocators.by_device[std::atoi(device.substr(device.rfind(':') + 1).c_str())] = bfc;
}

Chunks ChunksOf(int index) {
  Allocators& allocators = All();
  const std::lock_guard<std::mutex> lock(allocators.mutex);
  const auto found = allocators.by_device.find(index);
  Chunks chunks;
  if (found == allocators.by_device.end()) return chunks;
  const tensorflow::MemoryDump dump = found->second->RecordMemoryMap();
  for (const auto& chunk : dump.chunk()) {
    if (chunk.in_use()) {
      chunks.in_use += chunk.size();
      chunks.requested += chunk.requested_size();
    } else {
      chunks.free += chunk.size();
      chunks.largest_free = std::max<int64_t>(chunks.largest_free, chunk.size());
    }
  }
  return chunks;
}

}  // namespace standin
