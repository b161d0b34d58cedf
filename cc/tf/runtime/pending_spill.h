// A tensor on its way from pinned memory to a spill file, and there.
//
// Writing begins at once, behind whoever asked. The pinned copy stays until it has been written, until that has failed,
// or until nobody wants it any more: with the object what was not begun is not written, what was begun is dropped at
// its next chunk, and what was written gives its room back. Thread-safety: all functions.

#ifndef LMS_CC_TF_RUNTIME_PENDING_SPILL_H_
#define LMS_CC_TF_RUNTIME_PENDING_SPILL_H_

#include <memory>
#include <string>

#include "cc/core/spill/spill_store.h"
#include "cc/tf/runtime/staging.h"

namespace lms {

class PendingSpill {
 public:
  // Where it is now: an error of writing, or one of the two.
  struct Place {
    SpillStatus status;
    std::shared_ptr<Staging> pinned;  // holds the staging: what has it must end soon (staging.h)
    SpillHandle entry;
  };

  // `writer` is named in errors. `request.cancelled` is not asked: the step that began it may have ended.
  PendingSpill(const std::string& writer, SpillStore* store, std::shared_ptr<Staging> staging, SpillRequest request);
  ~PendingSpill();
  PendingSpill(const PendingSpill&) = delete;
  PendingSpill& operator=(const PendingSpill&) = delete;

  Place Now() const;
  SpillStore* store() const { return store_; }

 private:
  struct State;

  SpillStore* const store_;
  const std::shared_ptr<State> state_;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_PENDING_SPILL_H_
