// The file below a spill store: a nameless file in a directory, and the calls that are made on it.
//
// SystemSpillFiles() is the real one (Linux). Its file has no name in the directory (O_TMPFILE; where the file system
// has none, a private file that is unlinked at once), so nothing is left behind, however the process ends. It is
// read and written past the page cache (O_DIRECT) where the file system allows that; where not, what was written is
// sent to the disk and dropped from the cache soon after, so that a spill does not fill memory with its own copies.
// On a file system that lives in memory (tmpfs) spilling frees nothing.
//
// Offsets, lengths and memory are multiples of kSpillAlignment. Write and Read may be short and may be interrupted;
// whoever calls goes on. Growing a file beyond the process's limit raises SIGXFSZ in the calling thread: Reserve and
// Write are for threads that block it, as those of spill_queue.h do.
//
// Thread-safety: Write and Read of different ranges may run at once, and beside Reserve. Truncate runs alone.

#ifndef LMS_CC_CORE_SPILL_SPILL_FILE_H_
#define LMS_CC_CORE_SPILL_SPILL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

namespace lms {

constexpr int64_t kSpillAlignment = 4096;

struct SpillIo {
  int64_t bytes = 0;
  int error = 0;  // an errno; 0: none. No bytes and no error: the file ends here.
};

class SpillFile {
 public:
  virtual ~SpillFile() = default;
  // Disk space for [offset, offset + bytes), the file made longer. 0 or an errno.
  virtual int Reserve(int64_t offset, int64_t bytes) = 0;
  virtual SpillIo Write(const void* data, int64_t bytes, int64_t offset) = 0;
  virtual SpillIo Read(void* data, int64_t bytes, int64_t offset) = 0;
  virtual int Truncate(int64_t bytes) = 0;
};

class SpillFiles {
 public:
  virtual ~SpillFiles() = default;
  // Nothing, and the errno, where no file can be made there.
  virtual std::unique_ptr<SpillFile> Open(const std::string& directory, int* error) = 0;
  // What an ordinary user may still store there, in bytes; -1 where that cannot be told.
  virtual int64_t FreeBytes(const std::string& directory) = 0;
};

SpillFiles* SystemSpillFiles();

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_FILE_H_
