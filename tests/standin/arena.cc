#include "tests/standin/arena.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace standin {
namespace {

struct Allocators {
  std::mutex mutex;
  std::map<int, tsl::BFCAllocator*> by_device;
};
Allocators& AllAllocators() {
  static Allocators* const allocators = new Allocators;
  return *allocators;
}

tensorflow::MemoryDump MapOf(int index) {
  Allocators& allocators = AllAllocators();
  const std::lock_guard<std::mutex> lock(allocators.mutex);
  const auto found = allocators.by_device.find(index);
  return found == allocators.by_device.end() ? tensorflow::MemoryDump() : found->second->RecordMemoryMap();
}

}  // namespace

void NoteAllocator(const std::string& device, tensorflow::Allocator* allocator) {
  auto* const bfc = dynamic_cast<tsl::BFCAllocator*>(allocator);
  if (bfc == nullptr) return;
  Allocators& allocators = AllAllocators();
  const std::lock_guard<std::mutex> lock(allocators.mutex);
  allocators.by_device[std::stoi(device.substr(device.rfind(':') + 1))] = bfc;
}

Chunks ChunksOf(int index) {
  Chunks chunks;
  const tensorflow::MemoryDump dump = MapOf(index);
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

void PrintChunks(int index, int64_t least) {
  const tensorflow::MemoryDump dump = MapOf(index);
  for (const auto& chunk : dump.chunk()) {
    if (!chunk.in_use() || chunk.size() < least) continue;
    std::fprintf(stderr, "%12ld %12ld %s\n", static_cast<long>(chunk.size()), static_cast<long>(chunk.requested_size()),
                 chunk.op_name().c_str());
  }
}

}  // namespace standin
