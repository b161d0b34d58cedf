// Calls of functions that are not inlined, with their bodies written out beside them: so that shape inference, which
// gives up on a call that reads variables through its arguments, knows what the call returns.
//
// Only for a copy of the graph that shapes are inferred on. The call node stays as it is; whoever read an output of it
// reads the body's result instead. Body nodes are called "<call>/lms_body/<node>". Calls in bodies are written out too;
// a body that would make the copy too large, or lies eight calls deep, is not, and neither is one that cannot be
// instantiated: that call is left to shape inference.

#ifndef LMS_CC_TF_SIZES_CALL_BODIES_H_
#define LMS_CC_TF_SIZES_CALL_BODIES_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct CallBody {
  std::vector<std::string> results;  // per output of the call: the tensor that it is
  std::vector<std::string> nodes;    // of the body, and of the calls in it
  bool compiled = false;             // by XLA, as one kernel
};

class CallBodies {
 public:
  static bool IsCall(const tensorflow::NodeDef& node);

  // Takes the bodies out of the graph's library: shape inference follows calls into them, without end where a function
  // calls itself.
  static void Strip(tensorflow::GraphDef* graph);

  // Writes out the bodies of the graph's calls, and strips the library. Linear in the graph and the bodies; at most
  // 20,000 nodes are added.
  void WriteOut(tensorflow::GraphDef* graph);

  // The call's body; null where the node is no call of the graph as it was, or was left alone.
  const CallBody* Of(const std::string& call) const;

 private:
  std::unordered_map<std::string, CallBody> bodies_;  // by call
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_CALL_BODIES_H_
