// Files of measurements that are kept between programs: where they are, and how they are written so that no reader ever
// meets half of one.
//
// A writer holds the lock beside the file, reads what is there, and replaces the whole file: writers wait for each
// other, for some seconds, and readers see the old file or the new one. Where the file system knows no locks, the last
// writer wins.
// Problems are returned as words, "" is none. All functions may be called from several threads and processes.

#ifndef LMS_CC_CORE_SYSTEM_KEPT_FILE_H_
#define LMS_CC_CORE_SYSTEM_KEPT_FILE_H_

#include <cstdint>
#include <string>
#include <tuple>

namespace lms {

// In $LMS_PROFILE_DIR, else $XDG_CACHE_HOME/lms/profiles or ~/.cache/lms/profiles, a file that is named after the
// device: "CPU x" and ".link" make CPU_x.link. "" where the environment names no directory.
std::string KeptFilePath(const std::string& device, const std::string& ending);

// What changes when a file does.
using FileStamp = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

// False where there is no file; errno says why.
bool StampOf(const std::string& path, FileStamp* stamp);

// The text of a regular file. A device or a pipe, which may never end, is a problem.
std::string ReadKeptFile(const std::string& path, std::string* text);

// Makes the directories above the file where they are missing.
std::string MakeDirectoriesFor(const std::string& path);

// The file is there whole, or as it was: others never see a part of it. `until_on_disk`: waits for the disk, which on
// one that is busy takes minutes; else a crash of the machine may lose the text.
std::string ReplaceKeptFile(const std::string& path, const std::string& text, bool until_on_disk);

// On `path`.lock, from construction to the end of its life, or not at all where the file system has no locks. Waits for
// those who hold it for at most so long, which counts for deadlines (waited.h).
class KeptFileLock {
 public:
  static constexpr double kMostSeconds = 2;

  explicit KeptFileLock(const std::string& path, double most_seconds = kMostSeconds);
  ~KeptFileLock();
  KeptFileLock(const KeptFileLock&) = delete;
  KeptFileLock& operator=(const KeptFileLock&) = delete;

  // Somebody else holds it still: nothing may be written.
  const std::string& problem() const { return problem_; }

 private:
  int file_;
  std::string problem_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_KEPT_FILE_H_
