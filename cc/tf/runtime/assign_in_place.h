// An assignment that writes into the memory that the variable has.
//
// TensorFlow's AssignVariableOp makes the memory of the new value the variable's. A momentum that is assigned in each
// step lies elsewhere after each step, and so do the pieces of memory that are free: in a pool with a limit a step that
// fits may fail some hundred steps later. LmsAssign does the same as AssignVariableOp, and copies the value into the
// variable's memory where nobody else holds that. It takes the kernel of AssignVariableOp for all else: a variable that
// has no value yet, or one of another shape; one that is being read; one that is a slice of a larger tensor.
//
// On CPUs and GPUs. Cost: reading and writing the value once.

#ifndef LMS_CC_TF_RUNTIME_ASSIGN_IN_PLACE_H_
#define LMS_CC_TF_RUNTIME_ASSIGN_IN_PLACE_H_

namespace lms {

// Registers the op and its kernels, once. False where they are there already. Called when the library is loaded.
bool RegisterAssignInPlace() noexcept;

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_ASSIGN_IN_PLACE_H_
