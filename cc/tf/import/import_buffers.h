// The buffers of an import: which tensors share storage, how large each of it is, and what alone keeps it from being
// evicted (its type, its place, that nobody knows its size).

#ifndef LMS_CC_TF_IMPORT_IMPORT_BUFFERS_H_
#define LMS_CC_TF_IMPORT_IMPORT_BUFFERS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Why the elements of a tensor list are kept.
inline constexpr char kTensorList[] = "a tensor list";

// Needs the ops. Fills in the buffers, with their facts, the outputs of the ops, and which dimensions were assumed.
// Linear in nodes, ports and the readers of what loops take over.
void AddBuffers(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_BUFFERS_H_
