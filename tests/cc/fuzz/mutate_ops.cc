#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tests/cc/fuzz/mutation.h"

namespace lms::fuzz {

using tensorflow::AttrValue;
using tensorflow::NodeDef;

bool UnknownOp(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  node->set_op(mutation->random.OneIn(3) ? "" : "NoSuchOp");
  mutation->Note("unknown op at " + node->name());
  return true;
}

bool OtherOp(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  static const auto* const ops = new std::vector<std::string>{
      // what loops, branches and variables are made of
      "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Identity", "IdentityN", "Const", "_Arg",
      "_Retval", "AddN", "VarHandleOp", "ReadVariableOp", "AssignAdd", "Assign", "TemporaryVariable", "_SwitchN",
      "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration",
      // others
      "LmsSwapOut", "LmsSwapIn", "LmsSwapWait", "LmsSwapFetch", "LmsSwapFetched", "PartitionedCall", "While", "If",
      "Einsum", "Conv2D", "FusedBatchNormV3", "_FusedConv2D", "_FusedMatMul", "TensorListPopBack", "TensorListPushBack",
      "TensorListReserve", "BroadcastGradientArgs", "DynamicStitch", "Reshape", "Split", "MaxPoolGrad",
      "Conv2DBackpropFilter", "_Send", "_Recv", "Placeholder", "OptionalGetValue", "IteratorGetNext",
      "SoftmaxCrossEntropyWithLogits", "BiasAddGrad", "Range", "Fill"};
  mutation->Note(node->name() + " was a " + node->op());
  node->set_op((*ops)[mutation->random.Below(static_cast<int>(ops->size()))]);
  if (mutation->random.OneIn(2)) {
    // What may be: all attributes that it must have.
    const tensorflow::OpDef* op_def = nullptr;
    if (tensorflow::OpRegistry::Global()->LookUpOpDef(node->op(), &op_def).ok()) {
      for (const auto& attr : op_def->attr()) {
        AttrValue& value = (*node->mutable_attr())[attr.name()];
        if (value.value_case() != AttrValue::VALUE_NOT_SET) continue;
        if (attr.has_default_value()) {
          value = attr.default_value();
        } else if (attr.type() == "type") {
          value.set_type(tensorflow::DT_FLOAT);
        } else if (attr.type() == "int") {
          value.set_i(mutation->random.OneIn(4) ? mutation->Number() : 1);
        } else if (attr.type() == "string") {
          value.set_s("x");
        } else if (attr.type() == "func") {
          value.mutable_func()->set_name("squared");
        } else if (attr.type() == "shape") {
          value.mutable_shape();
        } else if (attr.type() == "tensor") {
          value.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
        } else if (attr.type() == "list(type)") {
          value.mutable_list()->add_type(tensorflow::DT_FLOAT);
        } else {
          value.mutable_list();
        }
      }
    }
  }
  return true;
}

bool OtherFrame(Mutation* mutation) {
  NodeDef* node = mutation->AnyOf({"Enter", "RefEnter"});
  if (node == nullptr) return false;
  (*node->mutable_attr())["frame_name"].set_s(mutation->random.OneIn(2) ? "other" : "");
  mutation->Note("frame of " + node->name());
  return true;
}

// Part of a loop goes, or another op takes its place.
bool LoopParts(Mutation* mutation) {
  const std::set<std::string> ops{"Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond"};
  NodeDef* node = mutation->AnyOf(ops);
  if (node == nullptr) return false;
  auto other = ops.begin();
  for (int k = mutation->random.Below(static_cast<int>(ops.size())); k > 0; --k) ++other;
  mutation->Note(node->name() + " was a " + node->op());
  if (mutation->random.OneIn(3)) {
    node->set_op("Identity");
  } else {
    node->set_op(*other);
    (*node->mutable_attr())["frame_name"].set_s("loop");
    (*node->mutable_attr())["N"].set_i(node->input_size());
  }
  return true;
}

bool MergeOfOne(Mutation* mutation) {
  NodeDef* node = mutation->AnyOf({"Merge"});
  if (node == nullptr || node->input_size() == 0) return false;
  node->mutable_input()->DeleteSubrange(mutation->random.Below(node->input_size()), 1);
  (*node->mutable_attr())["N"].set_i(node->input_size());
  mutation->Note("Merge of one");
  return true;
}

bool NextNowhere(Mutation* mutation) {
  NodeDef* node = mutation->AnyOf({"NextIteration"});
  if (node == nullptr) return false;
  const std::string name = node->name();
  const std::string instead = mutation->Any()->name();
  for (NodeDef& reader : *mutation->graph.mutable_node()) {
    for (std::string& input : *reader.mutable_input()) {
      if (input == name) input = instead;
    }
  }
  mutation->Note(name + " leads nowhere");
  return true;
}

bool Recursion(Mutation* mutation) {
  for (auto& function : *mutation->graph.mutable_library()->mutable_function()) {
    for (NodeDef& node : *function.mutable_node_def()) {
      if (node.attr().count("f") == 0) continue;
      const auto& functions = mutation->graph.library().function();
      const std::string& name = functions.Get(mutation->random.Below(functions.size())).signature().name();
      (*node.mutable_attr())["f"].mutable_func()->set_name(mutation->random.OneIn(2) ? function.signature().name()
                                                                                     : name);
      mutation->Note("recursion in " + function.signature().name());
      return true;
    }
  }
  return false;
}

bool NoFunction(Mutation* mutation) {
  auto* functions = mutation->graph.mutable_library()->mutable_function();
  if (functions->empty()) return false;
  const int at = mutation->random.Below(functions->size());
  if (mutation->random.OneIn(3)) {
    const auto copy = functions->Get(at);
    *functions->Add() = copy;
    mutation->Note("a function twice");
  } else {
    functions->DeleteSubrange(at, 1);
    mutation->Note("a function less");
  }
  return true;
}

bool BodyNode(Mutation* mutation) {
  auto* functions = mutation->graph.mutable_library()->mutable_function();
  if (functions->empty()) return false;
  auto* function = functions->Mutable(mutation->random.Below(functions->size()));
  mutation->Note("body of " + function->signature().name());
  switch (mutation->random.Below(6)) {
    case 0:
      function->clear_node_def();
      return true;
    case 1:
      function->clear_ret();
      return true;
    case 2:
      function->mutable_signature()->clear_input_arg();
      return true;
    case 3:
      function->mutable_signature()->set_name(mutation->Name());
      return true;
    default:
      break;
  }
  if (function->node_def_size() == 0) return false;
  NodeDef* node = function->mutable_node_def(mutation->random.Below(function->node_def_size()));
  switch (mutation->random.Below(5)) {
    case 0:
      node->set_name(mutation->Name());
      break;
    case 1:
      node->set_op("NoSuchOp");
      break;
    case 2:
      node->clear_attr();
      break;
    case 3:
      if (node->input_size() > 0) node->set_input(0, node->name());
      break;
    default:
      if (node->input_size() > 0) node->set_input(mutation->random.Below(node->input_size()), mutation->Name());
  }
  return true;
}

bool LibraryAttrs(Mutation* mutation) {
  auto* functions = mutation->graph.mutable_library()->mutable_function();
  if (functions->empty()) return false;
  auto* function = functions->Mutable(mutation->random.Below(functions->size()));
  mutation->MakeOdd(&(*function->mutable_attr())["_XlaMustCompile"]);
  auto* signature = function->mutable_signature();
  if (signature->input_arg_size() > 0) {
    auto* arg = signature->mutable_input_arg(0);
    if (mutation->random.OneIn(2)) arg->set_type(static_cast<tensorflow::DataType>(mutation->random.Below(40)));
    if (mutation->random.OneIn(2)) arg->set_number_attr("N");
    if (mutation->random.OneIn(2)) arg->set_type_attr("T");
  }
  mutation->Note("signature of " + signature->name());
  return true;
}

// A function called by its name as an op.
bool OpOfLibrary(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr || mutation->graph.library().function_size() == 0) return false;
  node->set_op(mutation->graph.library().function(0).signature().name());
  mutation->Note(node->name() + " calls a function by its name");
  return true;
}

}  // namespace lms::fuzz
