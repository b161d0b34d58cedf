// Single ops of a graph, evaluated with TensorFlow's own CPU kernels while the graph is only read.
//
// For what programs compute from shapes: few numbers, and ops without effects. Refused, without harm: ops that are
// stateful, call functions, run Python, have no inputs, or have no CPU kernel; inputs of another type than the op's;
// tensors that are no plain numbers or booleans, or of more than kMostElements. What is too large must be refused
// before: a kernel cannot be stopped, and allocates what it makes.

#ifndef LMS_CC_TF_SIZES_OP_EVALUATION_H_
#define LMS_CC_TF_SIZES_OP_EVALUATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

class OpEvaluator {
 public:
  static constexpr int64_t kMostElements = 4096;  // of one tensor
  // Runs of one evaluator: counted, so that the same graph is read the same way on any machine. A run takes some 10 us.
  static constexpr int kMostRuns = 50000;

  OpEvaluator();
  ~OpEvaluator();

  // Numbers or booleans, not quantized.
  static bool IsPlain(tensorflow::DataType type);

  // By what the op is: without state and functions, plain inputs and outputs.
  static bool MayRun(const tensorflow::NodeDef& node, const tensorflow::OpDef& op);

  // Does the op make no more elements than all its inputs together have, times their rank? The sizes of what others
  // make must be known before they are run.
  static bool NeverLarger(const tensorflow::NodeDef& node);

  // Fills *outputs; false where that cannot be done, for whatever reason. Not to be called from two threads at once.
  // The first call starts a thread, which ends with the evaluator.
  bool Run(const tensorflow::NodeDef& node, const tensorflow::OpDef& op,
           const std::vector<const tensorflow::Tensor*>& inputs, std::vector<tensorflow::Tensor>* outputs);

  int runs() const { return runs_; }

 private:
  class Device;

  std::unique_ptr<Device> device_;
  int runs_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_OP_EVALUATION_H_
