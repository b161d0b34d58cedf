// What of an import is kept, and why: which ops must not be copied, and which buffers not be evicted.

#ifndef LMS_CC_TF_IMPORT_KEEP_REASONS_H_
#define LMS_CC_TF_IMPORT_KEEP_REASONS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs all reads and changes. Fills in `recomputable` and `evictable`, `no_more_readers`, and for the rest the reason
// why not: for a buffer what its facts say, and where they say nothing what is said of its producer. Linear in nodes
// and inputs.
void FindKeepReasons(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_KEEP_REASONS_H_
