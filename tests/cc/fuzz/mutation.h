// What mutate.cc chooses from: the ways to corrupt a case, and what they have in common.

#ifndef LMS_TESTS_CC_FUZZ_MUTATION_H_
#define LMS_TESTS_CC_FUZZ_MUTATION_H_

#include <cstdint>
#include <set>
#include <string>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tests/cc/fuzz/random_step.h"

namespace lms::fuzz {

// A case that is being corrupted. Each choice is one of `random`; what finds nothing returns nullptr.
struct Mutation {
  Mutation(Random* random, FuzzCase* fuzz_case);

  // Adds to what is said of the case.
  void Note(const std::string& what);

  tensorflow::NodeDef* Any();
  tensorflow::NodeDef* AnyWithInput();
  tensorflow::NodeDef* AnyOf(const std::set<std::string>& ops);
  std::string* AnyInput();
  tensorflow::AttrValue* AnyAttr(tensorflow::NodeDef** owner = nullptr);
  tensorflow::AttrValue* AnyAttrOf(tensorflow::AttrValue::ValueCase kind, tensorflow::NodeDef** owner);
  tensorflow::AttrValue& Option(const std::string& name);

  int64_t Number();
  const std::string& Name();
  void MakeOdd(tensorflow::AttrValue* value);
  void MakeOdd(tensorflow::TensorShapeProto* shape);

  Random& random;
  FuzzCase& fuzz_case;
  tensorflow::GraphDef& graph;
};

// All of these return false where there was nothing to change in that way.

// Of nodes and what they read (mutate_edges.cc).
bool DropNode(Mutation* mutation);
bool DropFew(Mutation* mutation);
bool DuplicateNode(Mutation* mutation);
bool RenameNode(Mutation* mutation);
bool RenameInPlace(Mutation* mutation);
bool DanglingInput(Mutation* mutation);
bool OddPort(Mutation* mutation);
bool OddInput(Mutation* mutation);
bool MisplacedControl(Mutation* mutation);
bool ControlEdge(Mutation* mutation);
bool Cycle(Mutation* mutation);
bool SelfLoop(Mutation* mutation);
bool SwapInputs(Mutation* mutation);
bool RewireAny(Mutation* mutation);
bool DropInput(Mutation* mutation);
bool AddInput(Mutation* mutation);
bool Shuffle(Mutation* mutation);

// Of attributes (mutate_attributes.cc).
bool DropAttr(Mutation* mutation);
bool OddAttr(Mutation* mutation);
bool OddListElement(Mutation* mutation);
bool AttrOfOther(Mutation* mutation);
bool OddType(Mutation* mutation);
bool OddShape(Mutation* mutation);
bool OddNumber(Mutation* mutation);
bool OddString(Mutation* mutation);
bool OddList(Mutation* mutation);
bool EmptyList(Mutation* mutation);
bool CorruptTensor(Mutation* mutation);

// Of ops, loops and functions (mutate_ops.cc).
bool UnknownOp(Mutation* mutation);
bool OtherOp(Mutation* mutation);
bool OtherFrame(Mutation* mutation);
bool LoopParts(Mutation* mutation);
bool MergeOfOne(Mutation* mutation);
bool NextNowhere(Mutation* mutation);
bool Recursion(Mutation* mutation);
bool NoFunction(Mutation* mutation);
bool BodyNode(Mutation* mutation);
bool LibraryAttrs(Mutation* mutation);
bool OpOfLibrary(Mutation* mutation);

// Of what is around a graph (mutate_surroundings.cc).
bool OddFetch(Mutation* mutation);
bool OddFeed(Mutation* mutation);
bool OddKeep(Mutation* mutation);
bool OddDevice(Mutation* mutation);
bool DeviceOfSome(Mutation* mutation);
bool OddOption(Mutation* mutation);
bool OddPath(Mutation* mutation);
bool OddInternal(Mutation* mutation);
bool Versions(Mutation* mutation);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_MUTATION_H_
