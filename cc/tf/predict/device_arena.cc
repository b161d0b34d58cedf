#include "cc/tf/predict/device_arena.h"

#include <algorithm>
#include <utility>

#include "cc/tf/graph/node_types.h"
#include "cc/tf/predict/chunk_splits.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"
#include "tensorflow/core/util/env_var.h"

namespace lms {
namespace {

// With a share of what is free as if somebody had it: of what no region has, and else at the end of the largest piece.
ArenaSettings Tight(ArenaSettings settings, double share) {
  int64_t taken = 0;
  int64_t free = 0;
  size_t largest = settings.pieces.size();
  for (size_t i = 0; i < settings.pieces.size(); ++i) {
    const ArenaSettings::Piece& piece = settings.pieces[i];
    taken += piece.bytes;
    if (piece.used) continue;
    free += piece.bytes;
    if (largest == settings.pieces.size() || piece.bytes > settings.pieces[largest].bytes) largest = i;
  }
  const int64_t untaken = settings.grows ? std::max<int64_t>(0, settings.limit_bytes - taken) : 0;
  auto kept = static_cast<int64_t>(share * static_cast<double>(free + untaken)) / kArenaUnit * kArenaUnit;
  const int64_t of_untaken = std::min(kept, untaken);
  settings.limit_bytes -= of_untaken;
  kept -= of_untaken;
  if (kept < kArenaUnit || largest == settings.pieces.size() || kept >= settings.pieces[largest].bytes) return settings;
  kept = kept / kArenaUnit * kArenaUnit;
  settings.pieces[largest].bytes -= kept;
  const int64_t end = settings.pieces[largest].address + settings.pieces[largest].bytes;
  settings.pieces.insert(settings.pieces.begin() + static_cast<int64_t>(largest) + 1, {end, kept, true, 0});
  return settings;
}

// Of a GPU's allocator, of which only its pieces can be asked. Without growth the first region is all that there is.
bool Grows(const ArenaSettings& settings) {
  bool always = false;
  if (!tensorflow::ReadBoolFromEnvVar("TF_FORCE_GPU_ALLOW_GROWTH", false, &always).ok()) always = false;
  int64_t bytes = 0;
  for (const ArenaSettings::Piece& piece : settings.pieces) bytes += piece.bytes;
  return settings.pieces.empty() ? always : bytes + kArenaUnit <= settings.limit_bytes;
}

// As it is, and with less: chunks larger than what was asked for make it twice as hard to say what is left of the
// pieces.
std::vector<ArenaSettings> WithAndWithout(const ArenaSettings& settings, double reserve) {
  const bool exact = settings.least_split_off <= kArenaUnit;
  return {settings, Tight(settings, exact ? reserve : 2 * reserve)};
}

bool Collects() {
  bool collects = true;
  return !tensorflow::ReadBoolFromEnvVar("TF_ENABLE_GPU_GARBAGE_COLLECTION", true, &collects).ok() || collects;
}

}  // namespace

tensorflow::Allocator* AllocatorOf(const std::string& device, const tensorflow::grappler::Cluster* cluster) {
  if (cluster != nullptr && cluster->GetDeviceSet() != nullptr) {
    for (tensorflow::Device* candidate : cluster->GetDeviceSet()->devices()) {
      if (candidate->name() == device) return candidate->GetAllocator(tensorflow::AllocatorAttributes());
    }
  }
  return DeviceType(device) == "CPU" ? tensorflow::cpu_allocator() : nullptr;
}

tensorflow::BFCAllocator* ChunksOf(const std::string& device, const tensorflow::grappler::Cluster* cluster) {
  tensorflow::Allocator* const allocator = AllocatorOf(device, cluster);
  if (IsGpu(device)) return dynamic_cast<tensorflow::BFCAllocator*>(allocator);
  if (DeviceType(device) != "CPU") return nullptr;
  const std::optional<CpuPool> pool = CpuPoolOf(allocator);
  return pool && pool->limited ? pool->allocator : nullptr;
}

void HandOutExactly(const std::string& device, const tensorflow::grappler::Cluster* cluster) {
  if (tensorflow::BFCAllocator* const chunks = ChunksOf(device, cluster)) SplitExactly(chunks);
}

std::vector<ArenaSettings::Piece> PiecesOf(tensorflow::BFCAllocator* allocator) {
  std::vector<ArenaSettings::Piece> pieces;
  const tensorflow::MemoryDump map = allocator->RecordMemoryMap();
  for (const tensorflow::MemChunk& chunk : map.chunk()) {
    const auto address = static_cast<int64_t>(chunk.address());
    pieces.push_back({address, chunk.size(), chunk.in_use(), chunk.requested_size()});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& one, const auto& other) { return one.address < other.address; });
  return pieces;
}

ArenaSettings ArenaOf(const CpuPool& pool) {
  ArenaSettings settings;
  settings.pieces = PiecesOf(pool.allocator);
  settings.limit_bytes = pool.limit_bytes;
  settings.grows = true;
  settings.least_bytes = pool.least_bytes;
  settings.least_split_off = LeastSplitOff(pool.allocator);
  return settings;
}

std::vector<ArenaSettings> DeviceArenas(const std::string& device, const tensorflow::grappler::Cluster* cluster,
                                        double reserve, bool pool_counts) {
  ArenaSettings settings;
  if (DeviceType(device) == "CPU") {
    const std::optional<CpuPool> pool = CpuPoolOf(AllocatorOf(device, cluster));
    if (!pool_counts || !pool || !pool->limited) return {};
    return WithAndWithout(ArenaOf(*pool), reserve);
  }
  if (!IsGpu(device)) return {};
  tensorflow::Allocator* const allocator = AllocatorOf(device, cluster);
  if (allocator == nullptr) return {settings};
  auto* const chunks = dynamic_cast<tensorflow::BFCAllocator*>(allocator);
  if (chunks == nullptr) return {};
  settings.pieces = PiecesOf(chunks);
  settings.least_split_off = LeastSplitOff(chunks);
  const auto stats = allocator->GetStats();
  if (stats && stats->bytes_limit) settings.limit_bytes = *stats->bytes_limit;
  settings.grows = Grows(settings);
  settings.collects = Collects();
  return WithAndWithout(settings, reserve);
}

std::vector<ArenaSettings> ArenasOfPool(int64_t bytes, bool exact, double reserve) {
  ArenaSettings settings;
  settings.limit_bytes = bytes / kArenaUnit * kArenaUnit;
  settings.least_bytes = kLeastPoolBytes;
  if (exact) settings.least_split_off = kArenaUnit;
  ArenaSettings tight = settings;
  const double kept = reserve * static_cast<double>(settings.limit_bytes);
  tight.limit_bytes -= static_cast<int64_t>(kept) / kArenaUnit * kArenaUnit;
  return {settings, tight};
}

}  // namespace lms
