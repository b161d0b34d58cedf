#include "cc/core/simulate/device_memory.h"

#include <algorithm>
#include <utility>

namespace lms {

DeviceMemory::DeviceMemory(const ArenaSettings& settings, const MemGraph& graph, std::vector<bool> becomes_variable)
    : arena_(settings), least_bytes_(settings.least_bytes), becomes_variable_(std::move(becomes_variable)) {
  std::map<int64_t, int> there;  // by the bytes that were asked for
  for (size_t i = 0; i < settings.pieces.size(); ++i) {
    const ArenaSettings::Piece& piece = settings.pieces[i];
    if (!piece.used) continue;
    kept_[piece.asked].push_back(static_cast<Arena::ChunkId>(i));
    ++there[piece.asked];
  }
  for (const MemBuffer& buffer : graph.buffers) {
    if (!buffer.resident || buffer.bytes == 0 || there[buffer.bytes]-- > 0) continue;
    const Arena::ChunkId chunk = Take(buffer.bytes);
    if (chunk != Arena::kNoRoom) kept_[buffer.bytes].push_back(chunk);
  }
}

Arena::ChunkId DeviceMemory::Take(int64_t bytes) {
  if (Outside(bytes)) return Arena::kNoRoom;
  const Arena::ChunkId chunk = arena_.Allocate(bytes);
  if (chunk == Arena::kNoRoom) lacking_ = std::max(lacking_, bytes - arena_.LargestFree());
  return chunk;
}

Arena::ChunkId DeviceMemory::Keep(int64_t bytes, Arena::ChunkId chunk) {
  const auto found = kept_.find(bytes);
  if (found == kept_.end() || found->second.empty()) return Arena::kNoRoom;
  const Arena::ChunkId old = found->second.front();
  found->second.pop_front();
  found->second.push_back(chunk);
  return old;
}

}  // namespace lms
