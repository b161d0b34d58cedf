// Assignments of a variable that may keep the memory that it has.

#ifndef LMS_CC_TF_GRAPH_VARIABLE_ASSIGNS_H_
#define LMS_CC_TF_GRAPH_VARIABLE_ASSIGNS_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

// Is the node an assignment, of floating-point numbers, for which LmsAssign does the same (assign_in_place.h)?
// Integers may be in the host's memory.
bool MayAssignInPlace(const tensorflow::NodeDef& node);

// Has all of them on the device done by that. Names, inputs and order stay. Linear in the graph.
void AssignInPlace(const std::string& device, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_VARIABLE_ASSIGNS_H_
