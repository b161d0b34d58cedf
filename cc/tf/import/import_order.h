// The ops of an import, one per live node, in execution order.

#ifndef LMS_CC_TF_IMPORT_IMPORT_ORDER_H_
#define LMS_CC_TF_IMPORT_IMPORT_ORDER_H_

#include "absl/status/status.h"
#include "cc/tf/import/import_state.h"

namespace lms {

// Needs nothing but the planned device. Fills in the ops (names, dependencies, workspaces, which are anchors; no
// buffers), which node each of them is, the waits of updates of variables (left out where they close a cycle together)
// and state->order. Fails where the graph cannot be put in order. Linear in nodes, edges and waits, for short lists of
// dependencies.
absl::Status AddOps(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_ORDER_H_
