// What became of a transfer to or from a spill file. Plain data.

#ifndef LMS_CC_CORE_SPILL_SPILL_STATUS_H_
#define LMS_CC_CORE_SPILL_SPILL_STATUS_H_

#include <string>
#include <utility>

namespace lms {

enum class SpillCode {
  kOk,
  kFull,       // no room: the disk, a quota, a limit of the process or of the user
  kDamaged,    // what came back is not what was written: a checksum, or the file is too short
  kCancelled,  // the one who asked no longer wants it
  kFailed,     // any other error of the system
};

struct SpillStatus {
  SpillCode code = SpillCode::kOk;
  std::string message;  // for people: the operation, the directory, the bytes, the cause, what to change

  bool ok() const { return code == SpillCode::kOk; }
  static SpillStatus Cancelled() { return {SpillCode::kCancelled, "the transfer was cancelled"}; }
};

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_STATUS_H_
