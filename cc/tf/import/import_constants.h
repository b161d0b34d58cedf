// What TensorFlow computes from constants before the first step, and then keeps as a constant: present from then on.
//
// When a function is made ready to run, after Grappler, results of up to 10 MiB that depend on constants alone are
// computed and put in their ops' place (constant_folding.cc, ConstantFoldingOptions). The constants that only they read
// go. Linear in the edges.

#ifndef LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_
#define LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the buffers. On a GPU only: on a CPU, where the same happens, such results still count as made in each step.
void CountFoldedConstants(ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_CONSTANTS_H_
