// What a step has changed when it fails, and how to undo it: asked for with on_oom="replan", where a step that has run
// out of memory is planned for less and run again.
//
// Before each op of the step that may change something that outlives it runs an op of our own, LmsChangeMark, which
// waits for what that op waits for. It keeps the value that a small variable has (a reference, no copy: an update in
// place then writes elsewhere), or notes that something was changed that cannot be undone: a large variable, a table, a
// queue, something outside of TensorFlow, what other processes wait for. That an element was taken from an iterator is
// noted by itself. Small are the counters of steps and seeds, the averages of batch normalisation, biases.
//
// On CPUs and GPUs. Cost: about a microsecond for each such op; of memory what small variables take, until the step
// ends. Thread-safety: all functions; of calls of one function that run at once, what is kept is mixed.

#ifndef LMS_CC_TF_RUNTIME_CHANGE_MARKS_H_
#define LMS_CC_TF_RUNTIME_CHANGE_MARKS_H_

#include <string>

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace lms {

// Registers the op and its kernel, once. False where they are there already. Called when the library is loaded.
bool RegisterChangeMark() noexcept;

// Adds the marks, under the name of the function. From now on UndoChanges knows the function. Linear in the graph.
void AddChangeMarks(const std::string& function, tensorflow::GraphDef* graph);

struct Undone {
  bool undone = false;   // the variables are as they were before the call; false: nothing was put back
  std::string why_not;   // in words to follow "because"
  bool element = false;  // an element was taken from an iterator, which is lost
};
// Of a call of the function that has failed, when nothing of it runs any more.
Undone UndoChanges(const std::string& function);

// Lets go of what is kept: at the beginning of a call, and at its end.
void ForgetChanges(const std::string& function);

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_CHANGE_MARKS_H_
