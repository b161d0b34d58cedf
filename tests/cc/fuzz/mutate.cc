#include "tests/cc/fuzz/mutate.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms::fuzz {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

const std::vector<std::string>& OddNames() {
  static const auto* const names = new std::vector<std::string>{"",
                                                                "^",
                                                                "^x",
                                                                ":0",
                                                                "x:0",
                                                                "x:99999999999999999999",
                                                                "a b\tc",
                                                                std::string("zero\0byte", 9),
                                                                "\xff\xfe",
                                                                "lms/recompute_0/x",
                                                                "lms/swap_out_0/x",
                                                                "lms/",
                                                                "/",
                                                                "a/lms_value_0",
                                                                "a/lms_body/b",
                                                                "..",
                                                                "_SOURCE",
                                                                "_SINK",
                                                                std::string(5000, 'n')};
  return *names;
}

const std::vector<int64_t>& OddNumbers() {
  static const auto* const numbers = new std::vector<int64_t>{0,
                                                              1,
                                                              -1,
                                                              -2,
                                                              2,
                                                              3,
                                                              255,
                                                              100000,
                                                              INT32_MAX,
                                                              int64_t{INT32_MAX} + 1,
                                                              INT32_MIN,
                                                              int64_t{1} << 40,
                                                              int64_t{1} << 62,
                                                              INT64_MAX,
                                                              INT64_MIN};
  return *numbers;
}

class Mutator {
 public:
  Mutator(Random* random, FuzzCase* fuzz_case) : random_(*random), case_(*fuzz_case), graph_(fuzz_case->item.graph) {}

  // False where there was nothing to change in that way.
  bool One() {
    static constexpr bool (Mutator::* kWays[])() = {
        &Mutator::DropNode,      &Mutator::DuplicateNode, &Mutator::RenameNode,   &Mutator::RenameInPlace,
        &Mutator::DanglingInput, &Mutator::OddPort,       &Mutator::OddInput,     &Mutator::MisplacedControl,
        &Mutator::Cycle,         &Mutator::SelfLoop,      &Mutator::SwapInputs,   &Mutator::DropInput,
        &Mutator::AddInput,      &Mutator::DropAttr,      &Mutator::OddAttr,      &Mutator::AttrOfOther,
        &Mutator::OddType,       &Mutator::OddShape,      &Mutator::OddNumber,    &Mutator::OddList,
        &Mutator::UnknownOp,     &Mutator::OtherOp,       &Mutator::OtherFrame,   &Mutator::LoopParts,
        &Mutator::MergeOfOne,    &Mutator::NextNowhere,   &Mutator::Recursion,    &Mutator::NoFunction,
        &Mutator::BodyNode,      &Mutator::CorruptTensor, &Mutator::OddFetch,     &Mutator::OddFeed,
        &Mutator::OddKeep,       &Mutator::OddDevice,     &Mutator::OddOption,    &Mutator::OddPath,
        &Mutator::Shuffle,       &Mutator::OddInternal,   &Mutator::ControlEdge,  &Mutator::DropFew,
        &Mutator::OddString,     &Mutator::Versions,      &Mutator::LibraryAttrs, &Mutator::RewireAny,
        &Mutator::DeviceOfSome,  &Mutator::OpOfLibrary,   &Mutator::EmptyList,    &Mutator::OddListElement,
    };
    constexpr int kCount = static_cast<int>(sizeof(kWays) / sizeof(kWays[0]));
    return (this->*kWays[random_.Below(kCount)])();
  }

 private:
  void Note(const std::string& what) { case_.why += "; " + what; }

  NodeDef* Any() { return graph_.node_size() == 0 ? nullptr : graph_.mutable_node(random_.Below(graph_.node_size())); }
  NodeDef* AnyWithInput() {
    for (int tries = 0; tries < 8; ++tries) {
      NodeDef* node = Any();
      if (node != nullptr && node->input_size() > 0) return node;
    }
    return nullptr;
  }
  NodeDef* AnyOf(const std::set<std::string>& ops) {
    std::vector<int> found;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (ops.count(graph_.node(i).op()) != 0) found.push_back(i);
    }
    return found.empty() ? nullptr : graph_.mutable_node(found[random_.Below(static_cast<int>(found.size()))]);
  }
  AttrValue* AnyAttr(NodeDef** owner = nullptr) {
    for (int tries = 0; tries < 8; ++tries) {
      NodeDef* node = Any();
      if (node == nullptr || node->attr().empty()) continue;
      if (owner != nullptr) *owner = node;
      int at = random_.Below(node->attr_size());
      // By name: the order of a map is nobody's.
      std::set<std::string> names;
      for (const auto& attr : node->attr()) names.insert(attr.first);
      auto name = names.begin();
      while (at-- > 0) ++name;
      return &(*node->mutable_attr())[*name];
    }
    return nullptr;
  }
  int64_t Number() { return OddNumbers()[random_.Below(static_cast<int>(OddNumbers().size()))]; }
  const std::string& Name() { return OddNames()[random_.Below(static_cast<int>(OddNames().size()))]; }
  std::string* AnyInput() {
    NodeDef* node = AnyWithInput();
    return node == nullptr ? nullptr : node->mutable_input(random_.Below(node->input_size()));
  }

  bool DropNode() {
    if (graph_.node_size() == 0) return false;
    const int at = random_.Below(graph_.node_size());
    Note("dropped " + graph_.node(at).name());
    graph_.mutable_node()->DeleteSubrange(at, 1);
    return true;
  }
  bool DropFew() {
    for (int k = 2 + random_.Below(6); k > 0; --k) DropNode();
    return true;
  }
  bool DuplicateNode() {
    const NodeDef* node = Any();
    if (node == nullptr) return false;
    const NodeDef copy = *node;
    *graph_.add_node() = copy;
    if (random_.OneIn(2)) graph_.mutable_node(graph_.node_size() - 1)->set_name(copy.name() + "_copy");
    Note("duplicated " + copy.name());
    return true;
  }
  // All that read it go along.
  bool RenameNode() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    const std::string old = node->name();
    const std::string name = Name();
    node->set_name(name);
    for (NodeDef& reader : *graph_.mutable_node()) {
      for (std::string& input : *reader.mutable_input()) {
        if (input == old) input = name;
        if (input == "^" + old) input = "^" + name;
        if (input.rfind(old + ":", 0) == 0) input = name + input.substr(old.size());
      }
    }
    Note("renamed " + old + " to " + name.substr(0, 40));
    return true;
  }
  bool RenameInPlace() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    Note("renamed " + node->name() + " alone");
    node->set_name(random_.OneIn(2) ? Name() : Any()->name());
    return true;
  }
  bool DanglingInput() {
    std::string* input = AnyInput();
    if (input == nullptr) return false;
    Note("dangling " + *input);
    *input = random_.OneIn(2) ? "nowhere" : *input + "_x";
    return true;
  }
  bool OddPort() {
    std::string* input = AnyInput();
    if (input == nullptr || input->empty()) return false;
    const std::string node = input->substr(0, input->find(':'));
    static const auto* const ports = new std::vector<std::string>{":1",          ":2",  ":7", ":100000", ":2147483647",
                                                                  ":2147483648", ":-1", ":",  ":x",      ":01"};
    *input = node + (*ports)[random_.Below(static_cast<int>(ports->size()))];
    Note("port " + *input);
    return true;
  }
  bool OddInput() {
    std::string* input = AnyInput();
    if (input == nullptr) return false;
    *input = Name();
    Note("odd input");
    return true;
  }
  bool MisplacedControl() {
    NodeDef* node = AnyWithInput();
    if (node == nullptr) return false;
    std::string* input = node->mutable_input(random_.Below(node->input_size()));
    *input = random_.OneIn(3) ? "^" + *input : "^" + Any()->name();
    Note("misplaced " + *input);
    return true;
  }
  bool ControlEdge() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    node->add_input("^" + Any()->name());
    Note("edge " + node->input(node->input_size() - 1) + " -> " + node->name());
    return true;
  }
  bool Cycle() {
    NodeDef* node = AnyWithInput();
    if (node == nullptr) return false;
    // A later node into an earlier one.
    const int later = graph_.node_size() - 1 - random_.Below(std::min(graph_.node_size(), 10));
    *node->mutable_input(random_.Below(node->input_size())) = graph_.node(later).name();
    Note("cycle by " + node->name());
    return true;
  }
  bool SelfLoop() {
    NodeDef* node = AnyWithInput();
    if (node == nullptr) return false;
    if (random_.OneIn(2)) {
      *node->mutable_input(random_.Below(node->input_size())) = node->name();
    } else {
      node->add_input("^" + node->name());
    }
    Note("self loop at " + node->name());
    return true;
  }
  bool SwapInputs() {
    std::string* a = AnyInput();
    std::string* b = AnyInput();
    if (a == nullptr || b == nullptr) return false;
    std::swap(*a, *b);
    Note("swapped two inputs");
    return true;
  }
  bool RewireAny() {
    std::string* input = AnyInput();
    if (input == nullptr) return false;
    *input = Any()->name();
    Note("rewired to " + *input);
    return true;
  }
  bool DropInput() {
    NodeDef* node = AnyWithInput();
    if (node == nullptr) return false;
    if (random_.OneIn(3)) {
      node->clear_input();
    } else {
      node->mutable_input()->DeleteSubrange(random_.Below(node->input_size()), 1);
    }
    Note("input of " + node->name() + " dropped");
    return true;
  }
  bool AddInput() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    const int times = random_.OneIn(20) ? 3000 : 1 + random_.Below(3);
    const std::string input = Any()->name();
    for (int k = 0; k < times; ++k) node->add_input(input);
    Note("inputs added to " + node->name());
    return true;
  }
  bool DropAttr() {
    NodeDef* node = nullptr;
    if (AnyAttr(&node) == nullptr) return false;
    std::set<std::string> names;
    for (const auto& attr : node->attr()) names.insert(attr.first);
    auto name = names.begin();
    for (int at = random_.Below(static_cast<int>(names.size())); at > 0; --at) ++name;
    Note("attribute " + *name + " of " + node->name() + " dropped");
    node->mutable_attr()->erase(*name);
    return true;
  }
  void MakeOdd(AttrValue* value) {
    switch (random_.Below(9)) {
      case 0:
        value->set_i(Number());
        break;
      case 1:
        value->set_s(Name());
        break;
      case 2:
        value->set_b(random_.OneIn(2));
        break;
      case 3:
        value->set_f(1e30F);
        break;
      case 4:
        value->set_type(static_cast<tensorflow::DataType>(random_.Below(140)));
        break;
      case 5:
        value->mutable_list();
        break;
      case 6:
        value->mutable_func()->set_name(random_.OneIn(2) ? "squared" : "no_such_function");
        break;
      case 7:
        value->set_placeholder("T");
        break;
      default:
        value->clear_value();
    }
  }
  bool OddAttr() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttr(&node);
    if (value == nullptr) return false;
    MakeOdd(value);
    Note("odd attribute of " + node->name());
    return true;
  }
  bool OddListElement() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttr(&node);
    if (value == nullptr || !value->has_list()) return false;
    auto* list = value->mutable_list();
    if (list->type_size() > 0) list->set_type(0, static_cast<tensorflow::DataType>(random_.Below(140)));
    if (list->i_size() > 0) list->set_i(random_.Below(list->i_size()), Number());
    if (list->shape_size() > 0) list->mutable_shape(0)->add_dim()->set_size(Number());
    Note("odd element in a list of " + node->name());
    return true;
  }
  bool AttrOfOther() {
    NodeDef* a = nullptr;
    NodeDef* b = nullptr;
    AttrValue* from = AnyAttr(&a);
    AttrValue* to = AnyAttr(&b);
    if (from == nullptr || to == nullptr) return false;
    const AttrValue copy = *from;
    *to = copy;
    Note("attribute of " + a->name() + " in " + b->name());
    return true;
  }
  bool OddType() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    for (const char* name : {"T", "dtype", "Tidx", "SrcT", "element_dtype"}) {
      if (node->attr().count(name) == 0) continue;
      static const auto* const types = new std::vector<tensorflow::DataType>{
          tensorflow::DT_INVALID, tensorflow::DT_STRING, tensorflow::DT_RESOURCE,  tensorflow::DT_VARIANT,
          tensorflow::DT_INT4,    tensorflow::DT_BOOL,   tensorflow::DT_COMPLEX64, tensorflow::DT_FLOAT_REF,
          tensorflow::DT_INT64,   tensorflow::DT_QINT8};
      (*node->mutable_attr())[name].set_type((*types)[random_.Below(static_cast<int>(types->size()))]);
      Note("type of " + node->name());
      return true;
    }
    return false;
  }
  void MakeOdd(tensorflow::TensorShapeProto* shape) {
    if (random_.OneIn(4)) shape->clear_dim();
    if (random_.OneIn(6)) shape->set_unknown_rank(true);
    const int dims = random_.OneIn(10) ? 300 : 1 + random_.Below(3);
    for (int k = 0; k < dims; ++k) {
      if (shape->dim_size() > 0 && random_.OneIn(2)) {
        shape->mutable_dim(random_.Below(shape->dim_size()))->set_size(Number());
      } else {
        shape->add_dim()->set_size(Number());
      }
    }
  }
  bool OddShape() {
    NodeDef* node = AnyOf({"Placeholder", "VarHandleOp", "_Arg", "TemporaryVariable", "Const"});
    if (node == nullptr) return false;
    for (const char* name : {"shape", "_output_shapes", "value", "_handle_shapes"}) {
      const auto found = node->mutable_attr()->find(name);
      if (found == node->mutable_attr()->end()) continue;
      AttrValue& value = found->second;
      if (value.has_tensor()) {
        MakeOdd(value.mutable_tensor()->mutable_tensor_shape());
      } else if (value.has_list()) {
        if (value.list().shape_size() == 0 || random_.OneIn(4)) value.mutable_list()->add_shape();
        MakeOdd(value.mutable_list()->mutable_shape(random_.Below(value.list().shape_size())));
      } else {
        MakeOdd(value.mutable_shape());
      }
      Note("shape of " + node->name());
      return true;
    }
    return false;
  }
  // An attribute of that kind.
  AttrValue* AnyAttrOf(AttrValue::ValueCase kind, NodeDef** owner) {
    for (int tries = 0; tries < 8; ++tries) {
      AttrValue* value = AnyAttr(owner);
      if (value == nullptr || value->value_case() == kind) return value;
    }
    return nullptr;
  }
  bool OddNumber() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttrOf(AttrValue::kI, &node);
    if (value == nullptr) return false;
    value->set_i(Number());
    Note("number of " + node->name());
    return true;
  }
  bool OddString() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttrOf(AttrValue::kS, &node);
    if (value == nullptr) return false;
    value->set_s(Name());
    Note("string of " + node->name());
    return true;
  }
  bool OddList() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttrOf(AttrValue::kList, &node);
    if (value == nullptr) return false;
    auto* list = value->mutable_list();
    const int times = random_.OneIn(10) ? 2000 : 1;
    for (int k = 0; k < times; ++k) {
      if (list->type_size() > 0) list->add_type(tensorflow::DT_FLOAT);
      if (list->i_size() > 0) list->add_i(Number());
      if (list->shape_size() > 0) list->add_shape();
    }
    Note("list of " + node->name() + " longer");
    return true;
  }
  bool EmptyList() {
    NodeDef* node = nullptr;
    AttrValue* value = AnyAttrOf(AttrValue::kList, &node);
    if (value == nullptr) return false;
    value->clear_list();
    value->mutable_list();
    Note("list of " + node->name() + " empty");
    return true;
  }
  bool UnknownOp() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    node->set_op(random_.OneIn(3) ? "" : "NoSuchOp");
    Note("unknown op at " + node->name());
    return true;
  }
  bool OtherOp() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    static const auto* const ops = new std::vector<std::string>{
        // what loops, branches and variables are made of
        "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Identity", "IdentityN", "Const", "_Arg",
        "_Retval", "AddN", "VarHandleOp", "ReadVariableOp", "AssignAdd", "Assign", "TemporaryVariable", "_SwitchN",
        "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration",
        // others
        "LmsSwapOut", "LmsSwapIn", "LmsSwapWait", "LmsSwapFetch", "LmsSwapFetched", "PartitionedCall", "While", "If",
        "Einsum", "Conv2D", "FusedBatchNormV3", "_FusedConv2D", "_FusedMatMul", "TensorListPopBack",
        "TensorListPushBack", "TensorListReserve", "BroadcastGradientArgs", "DynamicStitch", "Reshape", "Split",
        "MaxPoolGrad", "Conv2DBackpropFilter", "_Send", "_Recv", "Placeholder", "OptionalGetValue", "IteratorGetNext",
        "SoftmaxCrossEntropyWithLogits", "BiasAddGrad", "Range", "Fill"};
    Note(node->name() + " was a " + node->op());
    node->set_op((*ops)[random_.Below(static_cast<int>(ops->size()))]);
    if (random_.OneIn(2)) {
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
            value.set_i(random_.OneIn(4) ? Number() : 1);
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
  bool OtherFrame() {
    NodeDef* node = AnyOf({"Enter", "RefEnter"});
    if (node == nullptr) return false;
    (*node->mutable_attr())["frame_name"].set_s(random_.OneIn(2) ? "other" : "");
    Note("frame of " + node->name());
    return true;
  }
  // Part of a loop goes, or another op takes its place.
  bool LoopParts() {
    const std::set<std::string> ops{"Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond"};
    NodeDef* node = AnyOf(ops);
    if (node == nullptr) return false;
    auto other = ops.begin();
    for (int k = random_.Below(static_cast<int>(ops.size())); k > 0; --k) ++other;
    Note(node->name() + " was a " + node->op());
    if (random_.OneIn(3)) {
      node->set_op("Identity");
    } else {
      node->set_op(*other);
      (*node->mutable_attr())["frame_name"].set_s("loop");
      (*node->mutable_attr())["N"].set_i(node->input_size());
    }
    return true;
  }
  bool MergeOfOne() {
    NodeDef* node = AnyOf({"Merge"});
    if (node == nullptr || node->input_size() == 0) return false;
    node->mutable_input()->DeleteSubrange(random_.Below(node->input_size()), 1);
    (*node->mutable_attr())["N"].set_i(node->input_size());
    Note("Merge of one");
    return true;
  }
  bool NextNowhere() {
    NodeDef* node = AnyOf({"NextIteration"});
    if (node == nullptr) return false;
    const std::string name = node->name();
    const std::string instead = Any()->name();
    for (NodeDef& reader : *graph_.mutable_node()) {
      for (std::string& input : *reader.mutable_input()) {
        if (input == name) input = instead;
      }
    }
    Note(name + " leads nowhere");
    return true;
  }
  bool Recursion() {
    for (auto& function : *graph_.mutable_library()->mutable_function()) {
      for (NodeDef& node : *function.mutable_node_def()) {
        if (node.attr().count("f") == 0) continue;
        const auto& functions = graph_.library().function();
        const std::string& name = functions.Get(random_.Below(functions.size())).signature().name();
        (*node.mutable_attr())["f"].mutable_func()->set_name(random_.OneIn(2) ? function.signature().name() : name);
        Note("recursion in " + function.signature().name());
        return true;
      }
    }
    return false;
  }
  bool NoFunction() {
    auto* functions = graph_.mutable_library()->mutable_function();
    if (functions->empty()) return false;
    const int at = random_.Below(functions->size());
    if (random_.OneIn(3)) {
      const auto copy = functions->Get(at);
      *functions->Add() = copy;
      Note("a function twice");
    } else {
      functions->DeleteSubrange(at, 1);
      Note("a function less");
    }
    return true;
  }
  bool BodyNode() {
    auto* functions = graph_.mutable_library()->mutable_function();
    if (functions->empty()) return false;
    auto* function = functions->Mutable(random_.Below(functions->size()));
    Note("body of " + function->signature().name());
    switch (random_.Below(6)) {
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
        function->mutable_signature()->set_name(Name());
        return true;
      default:
        break;
    }
    if (function->node_def_size() == 0) return false;
    NodeDef* node = function->mutable_node_def(random_.Below(function->node_def_size()));
    switch (random_.Below(5)) {
      case 0:
        node->set_name(Name());
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
        if (node->input_size() > 0) node->set_input(random_.Below(node->input_size()), Name());
    }
    return true;
  }
  bool LibraryAttrs() {
    auto* functions = graph_.mutable_library()->mutable_function();
    if (functions->empty()) return false;
    auto* function = functions->Mutable(random_.Below(functions->size()));
    MakeOdd(&(*function->mutable_attr())["_XlaMustCompile"]);
    auto* signature = function->mutable_signature();
    if (signature->input_arg_size() > 0) {
      auto* arg = signature->mutable_input_arg(0);
      if (random_.OneIn(2)) arg->set_type(static_cast<tensorflow::DataType>(random_.Below(40)));
      if (random_.OneIn(2)) arg->set_number_attr("N");
      if (random_.OneIn(2)) arg->set_type_attr("T");
    }
    Note("signature of " + signature->name());
    return true;
  }
  // A function called by its name as an op.
  bool OpOfLibrary() {
    NodeDef* node = Any();
    if (node == nullptr || graph_.library().function_size() == 0) return false;
    node->set_op(graph_.library().function(0).signature().name());
    Note(node->name() + " calls a function by its name");
    return true;
  }
  bool CorruptTensor() {
    NodeDef* node = AnyOf({"Const"});
    if (node == nullptr) return false;
    auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
    switch (random_.Below(7)) {
      case 0:
        tensor->set_tensor_content("abc");
        break;
      case 1:
        tensor->set_dtype(static_cast<tensorflow::DataType>(random_.Below(140)));
        break;
      case 2:
        MakeOdd(tensor->mutable_tensor_shape());
        break;
      case 3:
        tensor->clear_int_val();
        tensor->clear_float_val();
        break;
      case 4:
        for (int k = 0; k < 100; ++k) tensor->add_int_val(k);
        break;
      case 5:
        tensor->add_int_val(static_cast<int>(Number()));
        if (tensor->int_val_size() > 1) tensor->set_int_val(0, static_cast<int>(Number()));
        break;
      default:
        tensor->Clear();
    }
    Note("tensor of " + node->name());
    return true;
  }
  bool OddFetch() {
    const std::string fetch = random_.OneIn(2) ? Name() : Any() == nullptr ? "x" : Any()->name() + ":7";
    if (random_.OneIn(4)) case_.item.fetch.clear();
    case_.item.fetch.push_back(fetch);
    Note("odd fetch");
    return true;
  }
  bool OddFeed() {
    case_.item.feed.emplace_back(random_.OneIn(2) || Any() == nullptr ? Name() : Any()->name() + ":1",
                                 tensorflow::Tensor());
    Note("odd feed");
    return true;
  }
  bool OddKeep() {
    case_.item.keep_ops.push_back(Name());
    Note("odd keep");
    return true;
  }
  bool OddDevice() {
    NodeDef* node = Any();
    if (node == nullptr) return false;
    static const auto* const devices =
        new std::vector<std::string>{"",         "garbage",
                                     "/device:", "/job:x/task:-1",
                                     "/cpu:0",   "/device:GPU:99999999999",
                                     "CPU:0",    "/job:localhost/replica:0/task:0/device:XPU:0",
                                     "//",       std::string("\0", 1),
                                     "GPU:",     "/gpu:*"};
    const std::string device = (*devices)[random_.Below(static_cast<int>(devices->size()))];
    if (random_.OneIn(3)) {
      for (NodeDef& each : *graph_.mutable_node()) each.set_device(device);
    } else {
      node->set_device(device);
    }
    Note("device " + device);
    return true;
  }
  bool DeviceOfSome() {
    for (NodeDef& node : *graph_.mutable_node()) {
      if (random_.OneIn(4)) node.set_device("/job:localhost/replica:0/task:0/device:GPU:0");
    }
    if (random_.OneIn(2)) case_.cluster = "gpu";
    Note("some on a GPU");
    return true;
  }
  AttrValue& Option(const std::string& name) { return (*case_.config.mutable_parameter_map())[name]; }
  bool OddOption() {
    static const auto* const names =
        new std::vector<std::string>{"memory_budget",  "recompute",       "schedule",         "swap",
                                     "swap_to",        "unknown_dim",     "safety_margin",    "feedback",
                                     "strict",         "swap_host_limit", "swap_disk_limit",  "swap_tensors",
                                     "swap_least_gap", "swap_in_ahead",   "swap_group",       "swap_sync",
                                     "swap_include",   "swap_exclude",    "swap_include_ops", "serialize_bytes",
                                     "_seen_sizes",    "_feedback",       "no_such_option",   "profile"};
    static const auto* const texts = new std::vector<std::string>{
        "",     "-1",     "1e400",  "nan",  "inf%",  "100.0001%",  "0%",         "0.0001%",     "9223372036854775807",
        "1EiB", "1e30GB", "min",    "auto", "call|", "call|x:y=z", "call|0:0=5", "1.5|again",   "1e6|x",
        "x=0",  "=,=,",   "a:99=3", "\xff", "host",  "/",          "both",       "Tanh,MatMul", "feed_0,var"};
    AttrValue& value = Option((*names)[random_.Below(static_cast<int>(names->size()))]);
    switch (random_.Below(5)) {
      case 0:
        value.set_i(Number());
        break;
      case 1:
        MakeOdd(&value);
        break;
      default:
        value.set_s((*texts)[random_.Below(static_cast<int>(texts->size()))]);
    }
    Note("odd option");
    return true;
  }
  bool OddPath() {
    static const auto* const paths = new std::vector<std::string>{
        "/proc/lms",  "/dev/null/x", "/nonexistent/deep/er", "/etc/hostname", std::string(5000, 'p'),
        "/proc/self", "/dev/full"};
    const char* const names[] = {"dump_graphs", "profile", "swap_to"};
    Option(names[random_.Below(3)]).set_s((*paths)[random_.Below(static_cast<int>(paths->size()))]);
    Note("odd path");
    return true;
  }
  bool OddInternal() {
    if (random_.OneIn(2)) {
      Option("time_ops").set_s("fuzz");
    } else {
      case_.threads = static_cast<int>(Number() % 100);
    }
    Note("time_ops or threads");
    return true;
  }
  bool Shuffle() {
    for (int i = graph_.node_size() - 1; i > 0; --i) graph_.mutable_node()->SwapElements(i, random_.Below(i + 1));
    Note("shuffled");
    return true;
  }
  bool Versions() {
    graph_.mutable_versions()->set_producer(static_cast<int>(Number() % 3000));
    graph_.mutable_versions()->set_min_consumer(static_cast<int>(Number() % 3000));
    Note("versions");
    return true;
  }

  Random& random_;
  FuzzCase& case_;
  GraphDef& graph_;
};

}  // namespace

void Mutate(Random* random, FuzzCase* fuzz_case) {
  fuzz_case->valid = false;
  fuzz_case->runnable = false;
  Mutator mutator(random, fuzz_case);
  const int count = 1 + random->Below(random->OneIn(3) ? 6 : 2);
  for (int done = 0, tries = 0; done < count && tries < 50; ++tries) done += mutator.One() ? 1 : 0;
}

void Tidy(FuzzCase* fuzz_case) {
  GraphDef& graph = fuzz_case->item.graph;
  for (NodeDef& node : *graph.mutable_node()) {
    const tensorflow::OpDef* op_def = nullptr;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def).ok()) continue;
    for (const auto& attr : op_def->attr()) {
      const auto found = node.attr().find(attr.name());
      if (found == node.attr().end() || !attr.has_default_value()) continue;
      if (found->second.SerializeAsString() == attr.default_value().SerializeAsString()) {
        node.mutable_attr()->erase(attr.name());
      }
    }
  }
}

}  // namespace lms::fuzz
