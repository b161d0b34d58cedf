// The room in one spill file: opens the file when it is first wanted, lets it grow, and says why it cannot.
//
// Thread-safety: all functions. Allocate opens and reserves, so it is for threads that block SIGXFSZ.

#ifndef LMS_CC_CORE_SPILL_SPILL_SPACE_H_
#define LMS_CC_CORE_SPILL_SPILL_SPACE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/spill/spill_extents.h"
#include "cc/core/spill/spill_file.h"
#include "cc/core/spill/spill_status.h"
#include "cc/core/spill/spill_store.h"

namespace lms {

class SpillSpace {
 public:
  SpillSpace(const std::string& directory, SpillFiles* files, SpillCounters* counters);
  ~SpillSpace();
  SpillSpace(const SpillSpace&) = delete;
  SpillSpace& operator=(const SpillSpace&) = delete;

  // Room for `bytes`, in one part if possible. `limit`: of what is stored, and of what the file grows to; 0: none.
  SpillStatus Allocate(int64_t bytes, int64_t limit, std::vector<SpillExtent>* extents);
  void Free(const std::vector<SpillExtent>& extents);
  void Trim();

  // All of `bytes` (a multiple of kSpillAlignment, as is `offset`), however many calls it takes.
  SpillStatus Write(const char* data, int64_t bytes, int64_t offset);
  SpillStatus Read(char* data, int64_t bytes, int64_t offset);

  SpillStatus Damaged(int64_t bytes, const std::string& how) const;
  SpillCounters* counters() const { return counters_; }

 private:
  // With the mutex held. An errno, 0: none. Find may find nothing without one: the limit does not allow more.
  int Grow(int64_t bytes);
  int Find(int64_t bytes, int64_t limit, std::vector<SpillExtent>* extents);
  SpillStatus Failure(const std::string& operation, int64_t bytes, int error) const;

  const std::string directory_;
  SpillFiles* const files_;
  SpillCounters* const counters_;
  std::mutex mutex_;
  SpillExtents extents_;             // guarded by mutex_
  std::unique_ptr<SpillFile> file_;  // set once, guarded by mutex_ until then
};

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_SPACE_H_
