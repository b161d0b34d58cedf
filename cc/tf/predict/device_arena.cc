#include "cc/tf/predict/device_arena.h"

#include <algorithm>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"

namespace lms {
namespace {

// At its end, as if somebody had it.
void Reserve(double share, ArenaSettings* settings) {
  int64_t free = 0;
  size_t largest = settings->pieces.size();
  for (size_t i = 0; i < settings->pieces.size(); ++i) {
    if (settings->pieces[i].used) continue;
    free += settings->pieces[i].bytes;
    if (largest == settings->pieces.size() || settings->pieces[i].bytes > settings->pieces[largest].bytes) largest = i;
  }
  const auto kept = static_cast<int64_t>(share * static_cast<double>(free)) / kArenaUnit * kArenaUnit;
  if (kept == 0 || kept >= settings->pieces[largest].bytes) return;
  settings->pieces[largest].bytes -= kept;
  const int64_t end = settings->pieces[largest].address + settings->pieces[largest].bytes;
  settings->pieces.insert(settings->pieces.begin() + static_cast<int64_t>(largest) + 1, {end, kept, true, 0});
}

}  // namespace

tensorflow::Allocator* AllocatorOf(const std::string& device, const tensorflow::grappler::Cluster* cluster) {
  if (cluster == nullptr || cluster->GetDeviceSet() == nullptr) return nullptr;
  for (tensorflow::Device* candidate : cluster->GetDeviceSet()->devices()) {
    if (candidate->name() == device) return candidate->GetAllocator(tensorflow::AllocatorAttributes());
  }
  return nullptr;
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

std::optional<ArenaSettings> DeviceArena(const std::string& device, const tensorflow::grappler::Cluster* cluster,
                                         double reserve) {
  if (device.find("GPU:") == std::string::npos) return std::nullopt;
  ArenaSettings settings;
  tensorflow::Allocator* const allocator = AllocatorOf(device, cluster);
  if (allocator == nullptr) return settings;
  auto* const chunks = dynamic_cast<tensorflow::BFCAllocator*>(allocator);
  if (chunks == nullptr) return std::nullopt;
  settings.pieces = PiecesOf(chunks);
  Reserve(reserve, &settings);
  const auto stats = allocator->GetStats();
  if (stats && stats->bytes_limit) settings.limit_bytes = *stats->bytes_limit;
  return settings;
}

}  // namespace lms
