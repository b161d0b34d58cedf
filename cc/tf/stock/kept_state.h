// Random operations whose place in their sequence outlives their kernels.
//
// A random operation with a seed keeps in its kernel how far it has come. TensorFlow makes the kernels of a function
// anew when the function is optimised anew, so a step that is planned again would draw its first numbers a second time.
// Here such an operation is put into an op of our own, LmsKeptState, which computes by the original kernel: the one
// that an earlier kernel of the same function and node already computes by, as long as there is one. The numbers, their
// order and the threads are those of the original; its name, inputs, outputs and edges stay.
//
// On CPUs only. Thread-safety: all functions.

#ifndef LMS_CC_TF_STOCK_KEPT_STATE_H_
#define LMS_CC_TF_STOCK_KEPT_STATE_H_

#include <string>

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace lms {

inline constexpr char kKeptStateOp[] = "LmsKeptState";

// Registers the op and its kernel, once. False where they are there already. Called when the library is loaded.
bool RegisterKeptState() noexcept;

// May all random operations with a seed, of this graph and of the functions that it calls, be kept? Linear.
bool CanKeepState(const tensorflow::GraphDef& graph);

// Puts each of them into the op. `function`: whose kernels share what they keep. Requires: CanKeepState.
void KeepState(const std::string& function, tensorflow::GraphDef* graph);

// Has KeepState been called for it? (Of the last few thousand functions.)
bool KeepsState(const std::string& function);

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_KEPT_STATE_H_
