#include "tests/cc/fuzz/mutate.h"

#include <array>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tests/cc/fuzz/mutation.h"

namespace lms::fuzz {
namespace {

// A seed stands for the same corruptions as long as this order stays as it is.
constexpr std::array kWays = {
    &DropNode,         &DuplicateNode, &RenameNode,   &RenameInPlace, &DanglingInput, &OddPort,        &OddInput,
    &MisplacedControl, &Cycle,         &SelfLoop,     &SwapInputs,    &DropInput,     &AddInput,       &DropAttr,
    &OddAttr,          &AttrOfOther,   &OddType,      &OddShape,      &OddNumber,     &OddList,        &UnknownOp,
    &OtherOp,          &OtherFrame,    &LoopParts,    &MergeOfOne,    &NextNowhere,   &Recursion,      &NoFunction,
    &BodyNode,         &CorruptTensor, &OddFetch,     &OddFeed,       &OddKeep,       &OddDevice,      &OddOption,
    &OddPath,          &Shuffle,       &OddInternal,  &ControlEdge,   &DropFew,       &OddString,      &Versions,
    &LibraryAttrs,     &RewireAny,     &DeviceOfSome, &OpOfLibrary,   &EmptyList,     &OddListElement,
};

}  // namespace

void Mutate(Random* random, FuzzCase* fuzz_case) {
  fuzz_case->valid = false;
  fuzz_case->runnable = false;
  Mutation mutation(random, fuzz_case);
  const int count = 1 + random->Below(random->OneIn(3) ? 6 : 2);
  for (int done = 0, tries = 0; done < count && tries < 50; ++tries) {
    done += kWays[random->Below(static_cast<int>(kWays.size()))](&mutation) ? 1 : 0;
  }
}

void Tidy(FuzzCase* fuzz_case) {
  tensorflow::GraphDef& graph = fuzz_case->item.graph;
  for (tensorflow::NodeDef& node : *graph.mutable_node()) {
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
