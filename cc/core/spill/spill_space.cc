#include "cc/core/spill/spill_space.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

// The file grows by a quarter, within these bounds: few calls, and little more than is needed.
constexpr int64_t kLeastGrowth = int64_t{32} << 20;
constexpr int64_t kMostGrowth = int64_t{256} << 20;

constexpr char kCheckDisk[] = ". Check the disk, or name a directory on another one (swap_to)";

bool NoRoom(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string Advice(int error) {
  if (error == EFBIG) return ". Raise the process's limit on the size of files (ulimit -f), or swap less";
  if (error == EDQUOT) return ". Raise the quota, name another directory (swap_to), or swap less (swap_disk_limit)";
  return ". Free space there, name another directory (swap_to), or swap less (swap_disk_limit)";
}

}  // namespace

SpillSpace::SpillSpace(const std::string& directory, SpillFiles* files, SpillCounters* counters)
    : directory_(directory), files_(files), counters_(counters) {}

SpillSpace::~SpillSpace() { counters_->file_bytes -= extents_.size(); }

SpillStatus SpillSpace::Failure(const std::string& operation, int64_t bytes, int error) const {
  const bool full = NoRoom(error);
  return {full ? SpillCode::kFull : SpillCode::kFailed, "lms could not " + operation + " " + FormatBytes(bytes) + " (" +
                                                            std::to_string(bytes) + " bytes) in its spill file in " +
                                                            directory_ + ": " + std::generic_category().message(error) +
                                                            (full ? Advice(error) : kCheckDisk)};
}

SpillStatus SpillSpace::Damaged(int64_t bytes, const std::string& how) const {
  return {SpillCode::kDamaged, "lms read " + std::to_string(bytes) + " bytes from its spill file in " + directory_ +
                                   " that are not what it wrote: " + how + kCheckDisk};
}

int SpillSpace::Grow(int64_t bytes) {
  const int64_t size = extents_.size();
  const int error = file_->Reserve(size, bytes);
  if (error != 0) {
    file_->Truncate(size);  // what was reserved before it failed
    return error;
  }
  extents_.Grow(bytes);
  counters_->file_bytes += bytes;
  return 0;
}

int SpillSpace::Find(int64_t bytes, int64_t limit, std::vector<SpillExtent>* extents) {
  std::optional<SpillExtent> extent = extents_.Allocate(bytes);
  int error = 0;
  if (!extent) {
    const int64_t needed = bytes - extents_.FreeAtEnd();
    int64_t wanted = std::max(needed, std::clamp(extents_.size() / 4, kLeastGrowth, kMostGrowth));
    if (limit > 0) wanted = std::min(wanted, (limit - extents_.size()) / kSpillAlignment * kSpillAlignment);
    wanted = wanted / kSpillAlignment * kSpillAlignment;
    if (wanted >= needed) {
      error = Grow(wanted);
      if (NoRoom(error) && wanted > needed) error = Grow(needed);
      if (error == 0) extent = extents_.Allocate(bytes);
    }
  }
  if (extent) {
    *extents = {*extent};
  } else {
    *extents = extents_.AllocateParts(bytes);
  }
  return error;
}

SpillStatus SpillSpace::Allocate(int64_t bytes, int64_t limit, std::vector<SpillExtent>* extents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ == nullptr) {
    int error = 0;
    file_ = files_->Open(directory_, &error);
    if (file_ == nullptr) {
      return {NoRoom(error) ? SpillCode::kFull : SpillCode::kFailed,
              "lms could not open a spill file in " + directory_ + " for " + std::to_string(bytes) +
                  " bytes: " + std::generic_category().message(error) +
                  (NoRoom(error) ? Advice(error) : ". Name a directory that can be written to (swap_to)")};
    }
  }
  const bool within = limit <= 0 || extents_.used() + bytes <= limit;
  const int error = within ? Find(bytes, limit, extents) : 0;
  if (extents->empty()) {
    if (error != 0) return Failure("reserve", bytes, error);
    return {SpillCode::kFull, "lms could not reserve " + FormatBytes(bytes) + " (" + std::to_string(bytes) +
                                  " bytes) in its spill file in " + directory_ + ": " +
                                  std::to_string(extents_.used()) + " bytes are taken and swap_disk_limit is " +
                                  std::to_string(limit) + ". Raise swap_disk_limit, or swap less"};
  }
  const int64_t stored = counters_->stored_bytes += bytes;
  int64_t peak = counters_->peak_stored_bytes;
  while (stored > peak && !counters_->peak_stored_bytes.compare_exchange_weak(peak, stored)) {
  }
  return {};
}

void SpillSpace::Free(const std::vector<SpillExtent>& extents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const SpillExtent& extent : extents) {
    extents_.Free(extent);
    counters_->stored_bytes -= extent.bytes;
  }
}

void SpillSpace::Trim() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t before = extents_.size();
  const int64_t after = extents_.Shrink();
  if (after == before) return;
  counters_->file_bytes -= before - after;
  file_->Truncate(after);  // best effort: what it does not give back is used again when the file grows
}

SpillStatus SpillSpace::Write(const char* data, int64_t bytes, int64_t offset) {
  int64_t moved = 0;
  while (moved < bytes) {
    const SpillIo io = file_->Write(data + moved, bytes - moved, offset + moved);
    if (io.error == EINTR) continue;
    if (io.error != 0 || io.bytes <= 0) return Failure("write", bytes, io.error != 0 ? io.error : EIO);
    moved += io.bytes;
  }
  return {};
}

SpillStatus SpillSpace::Read(char* data, int64_t bytes, int64_t offset) {
  int64_t moved = 0;
  while (moved < bytes) {
    const SpillIo io = file_->Read(data + moved, bytes - moved, offset + moved);
    if (io.error == EINTR) continue;
    if (io.error != 0) return Failure("read", bytes, io.error);
    if (io.bytes <= 0) return Damaged(bytes, "the file ends before them");
    moved += io.bytes;
  }
  return {};
}

}  // namespace lms
