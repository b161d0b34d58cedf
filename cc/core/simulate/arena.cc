#include "cc/core/simulate/arena.h"

#include <algorithm>

namespace lms {
namespace {

constexpr int64_t kFirstRegion = int64_t{2} << 20;  // where memory grows

}  // namespace

Arena::Arena(const ArenaSettings& settings)
    : limit_bytes_(settings.limit_bytes),
      least_split_off_(settings.least_split_off),
      collects_(settings.collects),
      next_region_(InArenaUnits(settings.grows ? std::min(settings.limit_bytes, kFirstRegion) : settings.limit_bytes)) {
  ChunkId last = kNoRoom;
  int64_t region = 0;
  for (const ArenaSettings::Piece& piece : settings.pieces) {
    const ChunkId chunk = NewChunk(piece.address, piece.bytes);
    region_bytes_ += piece.bytes;
    next_offset_ = std::max(next_offset_, piece.address + piece.bytes);
    const bool joined = last != kNoRoom && chunks_[last].offset + chunks_[last].bytes == piece.address;
    region = piece.bytes + (joined ? region : 0);
    while (settings.grows && next_region_ <= region) next_region_ *= 2;
    if (joined) {
      chunks_[last].after = chunk;
      chunks_[chunk].before = last;
    }
    last = chunk;
    if (piece.used) {
      chunks_[chunk].used = true;
      in_use_ += piece.bytes;
    } else {
      free_.insert(Key(chunk));
    }
  }
}

Arena::ChunkId Arena::Allocate(int64_t bytes) {
  const int64_t rounded = InArenaUnits(bytes);
  auto found = free_.lower_bound({rounded, -1, kNoRoom});
  if (found == free_.end()) {
    if (!Extend(rounded) && !(Collect(rounded) && Extend(rounded))) return kNoRoom;
    found = free_.lower_bound({rounded, -1, kNoRoom});
    if (found == free_.end()) return kNoRoom;
  }
  const ChunkId chunk = std::get<ChunkId>(*found);
  free_.erase(found);
  const int64_t left = chunks_[chunk].bytes - rounded;
  if (left >= rounded || left >= least_split_off_) SplitOff(chunk, rounded);
  chunks_[chunk].used = true;
  in_use_ += chunks_[chunk].bytes;
  return chunk;
}

void Arena::Free(ChunkId chunk) {
  chunks_[chunk].used = false;
  in_use_ -= chunks_[chunk].bytes;
  const ChunkId after = chunks_[chunk].after;
  if (after != kNoRoom && !chunks_[after].used) {
    free_.erase(Key(after));
    Join(chunk, after);
  }
  const ChunkId before = chunks_[chunk].before;
  if (before != kNoRoom && !chunks_[before].used) {
    free_.erase(Key(before));
    Join(before, chunk);
    chunk = before;
  }
  free_.insert(Key(chunk));
}

std::vector<int64_t> Arena::FreePieces() const {
  std::vector<int64_t> pieces;
  for (const auto& [bytes, offset, chunk] : free_) pieces.push_back(bytes);
  const int64_t left = LeftBytes() / kArenaUnit * kArenaUnit;
  if (left > 0) pieces.push_back(left);
  return pieces;
}

std::vector<ArenaSettings::Piece> Arena::Pieces() const {
  std::vector<bool> unused(chunks_.size(), false);
  for (const ChunkId chunk : unused_) unused[chunk] = true;
  std::vector<ArenaSettings::Piece> pieces;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (!unused[i]) pieces.push_back({chunks_[i].offset, chunks_[i].bytes, chunks_[i].used, 0});
  }
  return pieces;
}

int64_t Arena::LargestFree() const {
  const int64_t free = free_.empty() ? 0 : std::get<0>(*free_.rbegin());
  int64_t left = LeftBytes();
  for (const ChunkId region : FreeRegions()) left += collects_ ? chunks_[region].bytes : 0;
  return std::max(free, left);
}

int64_t Arena::LeftBytes() const { return (limit_bytes_ - region_bytes_) / kArenaUnit * kArenaUnit; }

// In one chunk each, as free neighbours join.
std::vector<Arena::ChunkId> Arena::FreeRegions() const {
  std::vector<ChunkId> regions;
  for (const auto& [bytes, offset, chunk] : free_) {
    if (chunks_[chunk].before == kNoRoom && chunks_[chunk].after == kNoRoom) regions.push_back(chunk);
  }
  return regions;
}

bool Arena::Collect(int64_t bytes) {
  if (!collects_) return false;
  const std::vector<ChunkId> regions = FreeRegions();
  int64_t free = 0;
  for (const ChunkId region : regions) free += chunks_[region].bytes;
  if (free == 0 || bytes > LeftBytes() + free) return false;
  for (const ChunkId region : regions) {
    free_.erase(Key(region));
    unused_.push_back(region);
  }
  region_bytes_ -= free;
  return true;
}

bool Arena::Extend(int64_t bytes) {
  const int64_t available = LeftBytes();
  if (bytes > available) return false;
  bool grown = false;
  while (bytes > next_region_) {
    next_region_ *= 2;
    grown = true;
  }
  const int64_t taken = std::min(next_region_, available);
  if (!grown) next_region_ *= 2;
  free_.insert(Key(NewChunk(next_offset_, taken)));
  next_offset_ += taken;
  region_bytes_ += taken;
  return true;
}

Arena::ChunkId Arena::NewChunk(int64_t offset, int64_t bytes) {
  ChunkId chunk = static_cast<ChunkId>(chunks_.size());
  if (unused_.empty()) {
    chunks_.emplace_back();
  } else {
    chunk = unused_.back();
    unused_.pop_back();
    chunks_[chunk] = Chunk();
  }
  chunks_[chunk].offset = offset;
  chunks_[chunk].bytes = bytes;
  return chunk;
}

void Arena::SplitOff(ChunkId chunk, int64_t bytes) {
  const ChunkId rest = NewChunk(chunks_[chunk].offset + bytes, chunks_[chunk].bytes - bytes);
  chunks_[chunk].bytes = bytes;
  chunks_[rest].before = chunk;
  chunks_[rest].after = chunks_[chunk].after;
  if (chunks_[rest].after != kNoRoom) chunks_[chunks_[rest].after].before = rest;
  chunks_[chunk].after = rest;
  free_.insert(Key(rest));
}

void Arena::Join(ChunkId first, ChunkId second) {
  chunks_[first].bytes += chunks_[second].bytes;
  chunks_[first].after = chunks_[second].after;
  if (chunks_[first].after != kNoRoom) chunks_[chunks_[first].after].before = first;
  unused_.push_back(second);
}

}  // namespace lms
