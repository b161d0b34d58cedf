// Bytes kept in a spill file: written and read in the background, given back when their handle goes.
//
// A store owns one file (spill_file.h), which grows in large steps up to a limit and is used again and again; Trim
// gives back what is free at its end. Each chunk has a checksum, which is verified when it is read: a file that was
// damaged or cut gives an error, never other bytes than were written.
//
// SharedSpillStore(directory) is what kernels use: one store per directory, one pair of queues (spill_queue.h) for
// all, made on first use and never destroyed, so that nothing of it ends before what uses it. After a fork the child
// has its own; entries from before the fork cannot be read in it, and freeing them there does nothing.
//
// Thread-safety: all functions. Callbacks come from I/O threads (Write and Read never call them inline, unless no
// thread could be started), and must not block.

#ifndef LMS_CC_CORE_SPILL_SPILL_STORE_H_
#define LMS_CC_CORE_SPILL_SPILL_STORE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/spill/spill_checksum.h"
#include "cc/core/spill/spill_extents.h"
#include "cc/core/spill/spill_file.h"
#include "cc/core/spill/spill_queue.h"
#include "cc/core/spill/spill_status.h"

namespace lms {

// How much was moved and is held, of all stores that share it.
struct SpillCounters {
  std::atomic<int64_t> written_bytes{0};
  std::atomic<int64_t> read_bytes{0};
  std::atomic<int64_t> stored_bytes{0};  // parts of the files that are taken
  std::atomic<int64_t> peak_stored_bytes{0};
  std::atomic<int64_t> file_bytes{0};  // reserved on the disk
};

class SpillSpace;

// Bytes in the file. The last handle gives their room back.
class SpillEntry {
 public:
  struct Chunk {
    int64_t file_offset = 0;
    int64_t offset = 0;  // within the entry
    int64_t bytes = 0;
    uint32_t checksum = 0;
  };

  SpillEntry(std::shared_ptr<SpillSpace> space, int64_t bytes);
  ~SpillEntry();
  SpillEntry(const SpillEntry&) = delete;
  SpillEntry& operator=(const SpillEntry&) = delete;

  int64_t bytes() const { return bytes_; }

 private:
  friend class SpillStore;

  const std::shared_ptr<SpillSpace> space_;
  const int64_t bytes_;
  const pid_t process_;
  std::vector<SpillExtent> extents_;
  std::vector<Chunk> chunks_;
};

using SpillHandle = std::shared_ptr<const SpillEntry>;

// How a transfer is to be done.
struct SpillRequest {
  int64_t deadline = 0;             // smaller is more urgent
  int64_t limit = 0;                // bytes that may be stored, and the file grow to; 0: what the disk has
  std::function<bool()> cancelled;  // may be empty; asked from I/O threads
};

class SpillStore {
 public:
  // What is pointed to outlives the store and its entries; the queues outlive the store.
  SpillStore(const std::string& directory, SpillFiles* files, SpillQueue* writers, SpillQueue* readers,
             SpillCounters* counters, CopyChecksum checksum = &CopyAndSum);

  // `data` stays as it is until `done` is called; on success with the handle.
  void Write(const void* data, int64_t bytes, SpillRequest request,
             std::function<void(const SpillStatus& status, SpillHandle entry)> done);
  // All bytes of the entry, which the store has let go of when `done` is called. On an error `data` holds anything.
  void Read(SpillHandle entry, void* data, SpillRequest request, std::function<void(const SpillStatus& status)> done);

  // Gives back the disk space that is free at the end of the file: all of it when nothing is stored.
  void Trim();

 private:
  const std::shared_ptr<SpillSpace> space_;
  SpillQueue* const writers_;
  SpillQueue* const readers_;
  const CopyChecksum checksum_;
};

struct SpillStatistics {
  int64_t written_bytes = 0;
  int64_t read_bytes = 0;
  double write_seconds = 0;      // during which something was being written
  double read_seconds = 0;       // likewise
  double processor_seconds = 0;  // of the I/O threads
  int64_t stored_bytes = 0;      // now
  int64_t peak_stored_bytes = 0;
  int64_t file_bytes = 0;  // now
};

// "" is DirectoryForSpilling().
SpillStore& SharedSpillStore(const std::string& directory);
// Of all shared stores, since the process began or the last reset (which sets peak_stored_bytes to what is stored).
SpillStatistics SharedSpillStatistics();
void ResetSharedSpillStatistics();
void TrimSharedSpillStores();

// The queues of the shared stores: threads of each direction, and bytes of a chunk. Chosen by measurement, see the .cc.
extern const int kSpillThreads;
extern const int64_t kSpillChunkBytes;

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_STORE_H_
