#include "cc/core/simulate/arena_replay.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace lms {
namespace {

struct Held {
  Arena::ChunkId chunk = Arena::kNoRoom;
  int64_t bytes = 0;
};

using Extent = std::tuple<int64_t, int64_t, bool>;  // address, bytes, in use

std::vector<Extent> ExtentsOf(const std::vector<ArenaSettings::Piece>& pieces) {
  std::vector<Extent> extents;
  for (const ArenaSettings::Piece& piece : pieces) extents.emplace_back(piece.address, piece.bytes, piece.used);
  std::sort(extents.begin(), extents.end());
  return extents;
}

}  // namespace

ArenaReplay Replay(const ArenaSettings& before, const std::vector<ArenaRequest>& requests,
                   const std::vector<ArenaSettings::Piece>& after) {
  Arena arena(before);
  ArenaReplay replay;
  std::unordered_map<int64_t, Held> held;  // by the address in the allocator
  int64_t seen = arena.bytes_in_use();
  for (size_t i = 0; i < before.pieces.size(); ++i) {
    const ArenaSettings::Piece& piece = before.pieces[i];
    if (piece.used) held[piece.address] = {static_cast<Arena::ChunkId>(i), piece.bytes};
  }
  replay.peak_bytes = replay.seen_peak_bytes = seen;
  for (const ArenaRequest& request : requests) {
    if (request.asked == 0) {
      const auto found = held.find(request.address);
      if (found == held.end()) continue;
      if (found->second.chunk != Arena::kNoRoom) arena.Free(found->second.chunk);
      seen -= found->second.bytes;
      held.erase(found);
      continue;
    }
    ++replay.requests;
    const Arena::ChunkId chunk = arena.Allocate(request.asked);
    const bool same = chunk == Arena::kNoRoom
                          ? request.address == 0
                          : arena.BytesOf(chunk) == request.bytes && arena.OffsetOf(chunk) == request.address;
    if (!same) ++replay.differences;
    if (request.address == 0) {
      if (chunk != Arena::kNoRoom) arena.Free(chunk);
      continue;
    }
    held[request.address] = {chunk, request.bytes};
    seen += request.bytes;
    replay.peak_bytes = std::max(replay.peak_bytes, arena.bytes_in_use());
    replay.seen_peak_bytes = std::max(replay.seen_peak_bytes, seen);
  }
  replay.same_map = ExtentsOf(arena.Pieces()) == ExtentsOf(after);
  return replay;
}

}  // namespace lms
