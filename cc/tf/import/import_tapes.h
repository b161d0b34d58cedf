// What Python's tapes hold: tf.py_function keeps its arguments and results until its gradient has been taken.
//
// In TensorFlow (python/ops/script_ops.py) the function of an EagerPyFunc that has a gradient runs under a tape. That
// is kept with arguments and results until the gradient, an EagerPyFunc as well, takes them. No edge tells which one is
// whose gradient: it is one with a name as automatic differentiation gives, and with the types that a gradient has. Of
// as many gradients as calls the last that was made is that of the first call; else all calls wait for the last one.

#ifndef LMS_CC_TF_IMPORT_IMPORT_TAPES_H_
#define LMS_CC_TF_IMPORT_IMPORT_TAPES_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the reads. The gradient reads what the tape holds, and nothing of that is evicted: that would free nothing.
void AddTapeReads(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_TAPES_H_
