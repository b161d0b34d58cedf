#include "cc/core/simulate/device_memory.h"

#include <algorithm>
#include <utility>

#include "cc/core/base/arena_unit.h"

namespace lms {

DeviceMemory::DeviceMemory(const ArenaSettings& settings, const MemGraph& graph, std::vector<bool> becomes_variable,
                           const Places* places)
    : arena_(settings),
      least_bytes_(settings.least_bytes),
      becomes_variable_(std::move(becomes_variable)),
      places_(places) {
  std::map<int64_t, int> there;  // by the bytes that were asked for
  for (size_t i = 0; i < settings.pieces.size(); ++i) {
    const ArenaSettings::Piece& piece = settings.pieces[i];
    if (!piece.used) continue;
    kept_[piece.asked].push_back(static_cast<Arena::ChunkId>(i));
    ++there[piece.asked];
  }
  for (const MemBuffer& buffer : graph.buffers) {
    if (!buffer.resident || buffer.bytes == 0 || there[buffer.bytes]-- > 0) continue;
    const Arena::ChunkId chunk = Take(Allocated(), buffer.bytes).chunk;
    if (chunk != Arena::kNoRoom) kept_[buffer.bytes].push_back(chunk);
  }
}

DeviceMemory::Space DeviceMemory::Take(const Allocated& what, int64_t bytes, int64_t piece_bytes) {
  Space space;
  space.bytes = bytes;
  space.outside = (piece_bytes > 0 ? std::min(piece_bytes, bytes) : bytes) < least_bytes_;
  if (space.outside) return space;
  if (piece_bytes > 0 && piece_bytes < bytes) return TakePieces(bytes, (bytes + piece_bytes - 1) / piece_bytes);
  space.place = TakePlace(what, bytes);
  if (!space.place) space.chunk = arena_.Allocate(bytes);
  if (!space.place && space.chunk == Arena::kNoRoom) space.place = space_.TakeAnywhere(InArenaUnits(bytes));
  if (space.place) {
    space.bytes = 0;
  } else if (space.chunk != Arena::kNoRoom) {
    space.bytes = arena_.BytesOf(space.chunk);
  } else {
    lacking_ = std::max(lacking_, bytes - std::max(arena_.LargestFree(), space_.LargestFree()));
  }
  return space;
}

// More than so many are not looked at one by one.
DeviceMemory::Space DeviceMemory::TakePieces(int64_t bytes, int64_t count) {
  constexpr int64_t kMostPieces = 64;
  count = std::min(count, kMostPieces);
  Space whole;
  for (int64_t i = 0; i < count; ++i) {
    whole.pieces.push_back(Take(Allocated(), bytes * (i + 1) / count - bytes * i / count));
    whole.bytes += whole.pieces.back().bytes;
  }
  return whole;
}

void DeviceMemory::Give(const Space& space) {
  for (const Space& piece : space.pieces) Give(piece);
  if (space.chunk != Arena::kNoRoom) arena_.Free(space.chunk);
  if (!space.place) return;
  space_.Give(*space.place);
  if (space_.empty()) GiveBlocks();
}

int64_t DeviceMemory::block_bytes() const {
  int64_t bytes = 0;
  for (const Arena::ChunkId block : blocks_) bytes += block == Arena::kNoRoom ? 0 : arena_.BytesOf(block);
  return bytes;
}

std::optional<Place> DeviceMemory::TakePlace(const Allocated& what, int64_t bytes) {
  if (places_ == nullptr || what.part < 0) return std::nullopt;
  const Place* const place = places_->Find(what, InArenaUnits(bytes));
  if (place == nullptr) return std::nullopt;
  if (blocks_.empty()) TakeBlocks();
  if (blocks_[place->block] != Arena::kNoRoom && space_.Take(*place, InArenaUnits(bytes))) return *place;
  if (space_.empty()) GiveBlocks();
  return std::nullopt;
}

void DeviceMemory::TakeBlocks() {
  std::vector<int64_t> sizes;
  for (const int64_t bytes : places_->blocks) {
    blocks_.push_back(arena_.Allocate(bytes));
    sizes.push_back(blocks_.back() == Arena::kNoRoom ? 0 : bytes);
  }
  space_ = BlockSpace(std::move(sizes));
}

void DeviceMemory::GiveBlocks() {
  for (const Arena::ChunkId block : blocks_) {
    if (block != Arena::kNoRoom) arena_.Free(block);
  }
  blocks_.clear();
  space_ = BlockSpace();
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
