// Lists of a tensor's rows that take no memory of their own: kernels of TensorListFromTensor (own_ops.h).
//
// TensorFlow's own copies each row. These hand on the rows where they lie, so the tensor is there as long as any of
// them, and nobody takes its storage over meanwhile. A row at an address that kernels do not take is copied, as by
// TensorFlow's. kReversedRowsLabel begins with the last row: a list of ReverseV2's result.

#ifndef LMS_CC_TF_RUNTIME_LIST_ROWS_OP_H_
#define LMS_CC_TF_RUNTIME_LIST_ROWS_OP_H_

namespace lms {

// Registers the kernels, once. False where they are there already. Called when the library is loaded.
bool RegisterListRows() noexcept;

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_LIST_ROWS_OP_H_
