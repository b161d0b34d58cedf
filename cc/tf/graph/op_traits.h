// What lms knows about kinds of ops: which share their input's storage, which may take it over, which may run twice.
//
// Facts of TensorFlow's kernels (CPU and GPU, 2.16 to 2.21), kept in one place. Where an op is not listed the answer is
// the careful one: it allocates its outputs, takes over nothing, and is copied only if its OpDef is stateless.

#ifndef LMS_CC_TF_GRAPH_OP_TRAITS_H_
#define LMS_CC_TF_GRAPH_OP_TRAITS_H_

#include <cstddef>
#include <string>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace lms {

// Data input whose storage output `port` shares, always; -1 when it has storage of its own.
int SharedInput(const tensorflow::NodeDef& node, int port);

// Is the node a view of that data input and nothing else: does it only hand the input's storage on?
bool IsViewOfInput(const tensorflow::NodeDef& node, int input);

// Is every output of the node exactly its input, shape and all? Readers may as well read the input.
bool IsPassThrough(const tensorflow::NodeDef& node);

// May the first output of an op of this type take over the storage of an input of the same size that nobody else reads?
bool MayForwardInput(const std::string& op_type);

// May the op wait, while it runs, for something that another op of the step does and that no edge of the graph shows
// (queues that are filled, staging areas, sends and receives, collectives, what DTensor makes collectives of)?
bool MayWaitForOthers(const std::string& op_type, const tensorflow::OpDef& op_def);

// Does the op compute other last bits when other ops hold its inputs meanwhile?
bool OrderDependsOnHolders(const std::string& op_type, size_t inputs);

// Switch, Merge, Enter, Exit, NextIteration, LoopCond and their kin.
bool IsControlFlow(const std::string& op_type);

// Reads a resource variable without changing it (ReadVariableOp); its output shares the variable's storage.
bool IsVariableRead(const std::string& op_type);

// Takes a variable's handle, changes nothing and shares nothing with it (queries of shape and state, gathers).
bool IsVariableQuery(const std::string& op_type);

// Does the executor run the op's kernel on the spot, instead of handing it to a thread of the pool (IsExpensive)?
bool RunsInline(const std::string& op_type);

// Takes an element from an iterator, and fails where there is none left.
bool TakesElement(const std::string& op_type);

// Is the iterator one element further after it? Also where the element comes as an Optional.
bool Advances(const std::string& op_type);

// Writes into the storage of its first input, which is its output too.
bool ChangesInPlace(const std::string& op_type);

// "" when a copy of the node computes the same bytes and does nothing else; otherwise the reason why not.
std::string WhyNotRecomputable(const tensorflow::NodeDef& node, const tensorflow::OpDef& op_def);

// The same of a node whose op is looked up among those that are registered; one that is not there runs once as well.
std::string WhyNotRecomputable(const tensorflow::NodeDef& node);

// Is there an op of that name? To register another one would end the process.
bool IsRegistered(const std::string& op);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_OP_TRAITS_H_
