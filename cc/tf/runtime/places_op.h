// A step that has places for its tensors says so, before it asks for the first of them (placed_memory.h).
//
// Nodes of other functions have the same names, a model's prediction those of its training step: names alone do not
// tell whose places are meant. LmsPlaces has no inputs and no results; "number" is what PlaceStep() gave.

#ifndef LMS_CC_TF_RUNTIME_PLACES_OP_H_
#define LMS_CC_TF_RUNTIME_PLACES_OP_H_

namespace lms {

// Registers the op and its kernels, once. False where they are there already. Called when the library is loaded.
bool RegisterPlaces() noexcept;

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_PLACES_OP_H_
