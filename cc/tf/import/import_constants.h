// What TensorFlow computes from constants before the first step, and then keeps as a constant: present from then on.
//
// When a function is made ready to run, after Grappler, results of up to 10 MiB that depend on constants alone are
// computed and put in their ops' place (constant_folding.cc, ConstantFoldingOptions). The constants that only they read
// go. So does the op, unless others wait for it by control edges: then it runs in each step, for nothing, and with it
// what it reads. A loss that is a mean has a gradient of that kind, as large as what it is the mean of; where a square
// comes before the mean, a constant waits for that. Linear in the edges, times the controls of those who read.

#ifndef LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_
#define LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the ops and the buffers. The results become resident. No copy may wait for an op that goes: it would stay.
void CountFoldedConstants(ImportState* state);

// Adds what the function's plans before keep of constants as one buffer, which is resident and read by nobody.
void AddEarlierConstants(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_
