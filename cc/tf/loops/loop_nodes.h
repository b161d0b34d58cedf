// Nodes that are added to a graph for the gradients of its loops. All are named after a node of the graph as it came
// (node_names.h), whose sizes and costs are theirs.

#ifndef LMS_CC_TF_LOOPS_LOOP_NODES_H_
#define LMS_CC_TF_LOOPS_LOOP_NODES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {

// The node stays, for those that wait for it, and does nothing.
void MakeNoOp(tensorflow::NodeDef* node);

class LoopNodes {
 public:
  using Types = std::initializer_list<std::pair<const char*, tensorflow::DataType>>;

  // Adds behind the nodes of `graph`, which must outlive this. Numbers go on from those that names in it have.
  explicit LoopNodes(tensorflow::GraphDef* graph);

  std::string NameFor(const std::string& original);
  // Each returns the node's name. `types`: the attributes that are types.
  std::string Add(tensorflow::NodeDef node);
  std::string Op(const std::string& original, const char* op, const std::string& device,
                 const std::vector<std::string>& inputs, Types types = {});
  // A scalar, alive where the node is that it waits for.
  std::string Scalar(const std::string& original, const std::string& device, int32_t value,
                     const std::string& waits_for);

  struct LoopFrame {
    std::string name;
    int64_t parallel_iterations;
    std::string cond;  // its LoopCond
  };
  // The loop that the Enter belongs to.
  static LoopFrame FrameOf(const tensorflow::NodeDef& enter, const std::string& cond);
  // A value that is the same in all iterations. `controls`: inputs as they are written ("^name").
  std::string EnterConstant(const std::string& original, const std::string& device, const std::string& value,
                            tensorflow::DataType type, const LoopFrame& frame,
                            const std::vector<std::string>& controls = {});

  // A variable of a loop. Its next value is named once it is there. `controls`: of its Enter.
  struct Variable {
    std::string enter;
    std::string merge;
    std::string fork;
    std::string next;
    std::string now() const { return fork + ":1"; }
  };
  // Named after these nodes.
  struct Originals {
    std::string enter;
    std::string merge;
    std::string fork;
    std::string next;
  };
  Variable BeginVariable(const Originals& originals, const std::string& device, const std::string& value,
                         tensorflow::DataType type, const LoopFrame& frame,
                         const std::vector<std::string>& controls = {});
  void EndVariable(const Variable& variable, const std::string& device, const std::string& value,
                   tensorflow::DataType type);

 private:
  tensorflow::GraphDef& graph_;
  int next_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_LOOPS_LOOP_NODES_H_
