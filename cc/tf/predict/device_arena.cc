#include "cc/tf/predict/device_arena.h"

#include <algorithm>
#include <utility>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"
#include "tensorflow/core/util/env_var.h"

namespace lms {
namespace {

// A share of what is free, as if somebody had it: of the limit where memory grows, else at the end of the largest
// piece.
void Reserve(double share, ArenaSettings* settings) {
  int64_t free = settings->grows ? settings->limit_bytes : 0;
  size_t largest = settings->pieces.size();
  for (size_t i = 0; i < settings->pieces.size(); ++i) {
    const ArenaSettings::Piece& piece = settings->pieces[i];
    if (settings->grows && piece.used) free -= piece.bytes;
    if (piece.used) continue;
    if (!settings->grows) free += piece.bytes;
    if (largest == settings->pieces.size() || piece.bytes > settings->pieces[largest].bytes) largest = i;
  }
  const auto kept = static_cast<int64_t>(share * static_cast<double>(free)) / kArenaUnit * kArenaUnit;
  if (settings->grows) {
    settings->limit_bytes -= std::max<int64_t>(0, kept);
    return;
  }
  if (kept == 0 || kept >= settings->pieces[largest].bytes) return;
  settings->pieces[largest].bytes -= kept;
  const int64_t end = settings->pieces[largest].address + settings->pieces[largest].bytes;
  settings->pieces.insert(settings->pieces.begin() + static_cast<int64_t>(largest) + 1, {end, kept, true, 0});
}

// Of a GPU's allocator, of which only its pieces can be asked. Without growth the first region is all that there is.
bool Grows(const ArenaSettings& settings) {
  bool always = false;
  if (!tensorflow::ReadBoolFromEnvVar("TF_FORCE_GPU_ALLOW_GROWTH", false, &always).ok()) always = false;
  int64_t bytes = 0;
  for (const ArenaSettings::Piece& piece : settings.pieces) bytes += piece.bytes;
  return settings.pieces.empty() ? always : bytes + kArenaUnit <= settings.limit_bytes;
}

bool Collects() {
  bool collects = true;
  return !tensorflow::ReadBoolFromEnvVar("TF_ENABLE_GPU_GARBAGE_COLLECTION", true, &collects).ok() || collects;
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

std::vector<ArenaSettings> DeviceArenas(const std::string& device, const tensorflow::grappler::Cluster* cluster,
                                        double reserve) {
  if (device.find("GPU:") == std::string::npos) return {};
  ArenaSettings settings;
  tensorflow::Allocator* const allocator = AllocatorOf(device, cluster);
  if (allocator == nullptr) return {settings};
  auto* const chunks = dynamic_cast<tensorflow::BFCAllocator*>(allocator);
  if (chunks == nullptr) return {};
  settings.pieces = PiecesOf(chunks);
  const auto stats = allocator->GetStats();
  if (stats && stats->bytes_limit) settings.limit_bytes = *stats->bytes_limit;
  settings.grows = Grows(settings);
  settings.collects = Collects();
  ArenaSettings tight = settings;
  Reserve(reserve, &tight);
  return {std::move(settings), std::move(tight)};
}

}  // namespace lms
