#include "cc/tf/graph/op_traits.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "cc/tf/graph/function_calls.h"
#include "cc/tf/graph/own_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using Names = std::unordered_set<std::string>;

// One output, which is the first input under another shape or name.
const Names& Views() {
  static const auto* const names = new Names{"Identity",      "Reshape",         "Squeeze",
                                             "ExpandDims",    "StopGradient",    "Bitcast",
                                             "EnsureShape",   "PreventGradient", "PlaceholderWithDefault",
                                             "CheckNumerics", "CheckNumericsV2", "Enter",
                                             "Exit",          "NextIteration",   "LoopCond",
                                             "RefIdentity"};
  return *names;
}

// forward_input_or_allocate_output, for the first output.
const Names& Forwarders() {
  static const auto* const names = new Names{
      // one input that is as large
      "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e",
      "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "BiasAdd",
      "Ceil", "Cholesky", "ClipByValue", "Cos", "Cosh", "Dawsn", "Digamma", "Elu", "Erf", "Erfc", "Erfinv", "Exp",
      "Expint", "Expm1", "FakeQuantWithMinMaxArgs", "Floor", "FresnelCos", "FresnelSin", "Inv", "Invert", "LeakyRelu",
      "Lgamma", "Log", "Log1p", "LogSoftmax", "LogicalNot", "Lu", "MatrixBandPart", "MatrixInverse", "MatrixSetDiag",
      "MatrixSetDiagV2", "MatrixSetDiagV3", "MatrixSquareRoot", "Ndtri", "Neg", "OnesLike", "Reciprocal", "Relu",
      "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign",
      "Spence", "Sqrt", "Square", "Tan", "Tanh", "TensorStridedSliceUpdate", "ZerosLike",
      // added up with other devices'
      "CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3",
      // where nothing is reduced: every axis has size 1, or there is none
      "All", "Any", "Max", "Mean", "Min", "Prod", "Sum",
      // two or more
      "AccumulateNV2", "Add", "AddN", "AddV2", "Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "CholeskyGrad", "Div",
      "DivNoNan", "EluGrad", "FakeQuantWithMinMaxArgsGradient", "FloorDiv", "FloorMod", "Igamma", "IgammaGradA",
      "Igammac", "InvGrad", "LeakyReluGrad", "LeftShift", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "NextAfter",
      "Polygamma", "Pow", "RandomGammaGrad", "RealDiv", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RightShift",
      "RsqrtGrad", "Select", "SelectV2", "SeluGrad", "SigmoidGrad", "SoftmaxCrossEntropyWithLogits", "SoftplusGrad",
      "SoftsignGrad", "SparseSoftmaxCrossEntropyWithLogits", "SqrtGrad", "SquaredDifference", "Sub", "TanhGrad",
      "TruncateDiv", "TruncateMod", "Xdivy", "Xlogy", "Zeta", "_UnaryOpsComposition"};
  return *names;
}

// One output, which is the first input after a change in place. None of these is stateful by its OpDef.
const Names& InPlace() {
  static const auto* const names = new Names{"Assign",        "AssignAdd",  "AssignSub",  "DestroyTemporaryVariable",
                                             "InplaceUpdate", "InplaceAdd", "InplaceSub", "_ParallelConcatUpdate"};
  return *names;
}

const Names& ControlFlow() {
  static const auto* const names =
      new Names{"Switch",    "Merge",    "Enter",    "Exit",    "NextIteration",    "LoopCond", "ControlTrigger",
                "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration", "_SwitchN", "Abort"};
  return *names;
}

// OpKernel::IsExpensive() is false. So it is of control flow.
const Names& Inexpensive() {
  static const auto* const names =
      new Names{// of TensorFlow
                "_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "BroadcastArgs", "BroadcastGradientArgs",
                "ConcatOffset", "Const", "EnsureShape", "ExpandDims", "HostConst", "Identity", "IdentityN",
                "ImmutableConst", "NoOp", "Placeholder", "PlaceholderWithDefault", "PreventGradient", "Rank",
                "RefIdentity", "Reshape", "Shape", "ShapeN", "Size", "Squeeze", "StopGradient", "VarHandleOp",
                // of our own
                kSwapInOp, kSwapOutOp};
  return *names;
}

// Stateless by their OpDef, yet of no use or no sense twice.
const Names& NeverTwice() {
  static const auto* const names = new Names{
      "_Arg",  "_DeviceArg", "_Retval", "_DeviceRetval", "Placeholder",    "PlaceholderV2", "PlaceholderWithDefault",
      "Const", "HostConst",  "NoOp",    "VarHandleOp",   "ImmutableConst", "CheckNumerics", "CheckNumericsV2"};
  return *names;
}

// Collectives and debugging ops, of TensorFlow and of others, that forget to say that they are stateful.
bool ActsOutside(const std::string& op_type) {
  static constexpr const char* kPrefixes[] = {"Collective", "Nccl", "Horovod", "BytePS", "Byteps",
                                              "Debug",      "TPU",  "Tpu",     "Xla"};
  for (const std::string_view prefix : kPrefixes) {
    if (std::string_view(op_type).substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

// FractionalMaxPool and its kin draw numbers of their own, yet are stateless by their OpDef.
bool HasSeedAttr(const tensorflow::OpDef& op_def) {
  for (const auto& attr : op_def.attr()) {
    if (attr.type() == "int" && (attr.name() == "seed" || attr.name() == "seed2")) return true;
  }
  return false;
}

bool NamesRef(const tensorflow::OpDef& op_def) {
  for (const auto& arg : op_def.input_arg()) {
    if (arg.is_ref()) return true;
  }
  for (const auto& arg : op_def.output_arg()) {
    if (arg.is_ref()) return true;
  }
  return false;
}

// An Optional made of one tensor shares its storage. Branches hand what their gradients read out in such ones.
bool HoldsOneValue(const tensorflow::NodeDef& node) {
  if (node.op() != "OptionalFromValue") return false;
  const auto types = node.attr().find("Toutput_types");
  return types != node.attr().end() && types->second.list().type_size() == 1;
}

}  // namespace

int SharedInput(const tensorflow::NodeDef& node, int port) {
  if (node.op() == "IdentityN") return port;
  if (node.op() == "OptionalGetValue" || HoldsOneValue(node)) return 0;
  if (node.op() == "Switch" || node.op() == "_SwitchN" || node.op() == "RefSwitch") return 0;
  return port == 0 && (Views().count(node.op()) != 0 || InPlace().count(node.op()) != 0) ? 0 : -1;
}

bool IsPassThrough(const tensorflow::NodeDef& node) {
  return node.op() == "Identity" || node.op() == "IdentityN" || node.op() == "StopGradient" ||
         node.op() == "PreventGradient";
}

bool IsViewOfInput(const tensorflow::NodeDef& node, int input) {
  if (IsControlFlow(node.op())) return false;
  return node.op() == "IdentityN" || node.op() == "OptionalGetValue" || HoldsOneValue(node) ||
         (input == 0 && Views().count(node.op()) != 0);
}

bool MayForwardInput(const std::string& op_type) { return Forwarders().count(op_type) != 0; }

bool OrderDependsOnHolders(const std::string& op_type, size_t inputs) { return op_type == "AddN" && inputs > 2; }

bool MayWaitForOthers(const std::string& op_type, const tensorflow::OpDef& op_def) {
  static constexpr const char* kParts[] = {"Enqueue", "Stage",      "BarrierInsert", "BarrierTake", "Send",
                                           "Recv",    "Collective", "Nccl",          "Horovod",     "BytePS",
                                           "DTensor", "CopyToMesh", "Relayout"};
  if (op_def.is_distributed_communication()) return true;
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return op_type.find(part) != std::string::npos; });
}

bool IsControlFlow(const std::string& op_type) { return ControlFlow().count(op_type) != 0; }

bool IsVariableRead(const std::string& op_type) { return op_type == "ReadVariableOp"; }

bool IsVariableQuery(const std::string& op_type) {
  return op_type == "VarIsInitializedOp" || op_type == "VariableShape" || op_type == "ResourceGather" ||
         op_type == "ResourceGatherNd";
}

bool RunsInline(const std::string& op_type) { return IsControlFlow(op_type) || Inexpensive().count(op_type) != 0; }

bool TakesElement(const std::string& op_type) {
  return op_type == "IteratorGetNext" || op_type == "IteratorGetNextSync";
}

bool Advances(const std::string& op_type) { return TakesElement(op_type) || op_type == "IteratorGetNextAsOptional"; }

bool ChangesInPlace(const std::string& op_type) { return InPlace().count(op_type) != 0; }

std::string WhyNotRecomputable(const tensorflow::NodeDef& node, const tensorflow::OpDef& op_def) {
  if (IsControlFlow(node.op())) return "control flow";
  if (NeverTwice().count(node.op()) != 0) return "an input, output or marker of the step";
  if (op_def.is_stateful()) return "stateful op (" + node.op() + ")";
  if (ChangesInPlace(node.op())) return "changes its input in place";
  if (ActsOutside(node.op())) return "may act outside the graph (" + node.op() + ")";
  if (HasSeedAttr(op_def)) return "random op (" + node.op() + ")";
  if (NamesFunction(node)) return "calls a function";
  if (NamesRef(op_def)) return "reads or writes a reference variable";
  return "";
}

std::string WhyNotRecomputable(const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* op_def = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def).ok()) return "an op of an unknown kind";
  return WhyNotRecomputable(node, *op_def);
}

bool IsRegistered(const std::string& op) {
  const tensorflow::OpRegistrationData* known = nullptr;
  return tensorflow::OpRegistry::Global()->LookUp(op, &known).ok();
}

}  // namespace lms
