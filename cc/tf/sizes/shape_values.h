// What a graph computes from shapes, evaluated; and the sizes that follow from it.
//
// Shape inference alone gives up where a size is computed: `Reshape(x, Pack(Prod(GatherV2(Shape(x)))))` has an unknown
// shape, whatever is known of x. Here the values that shape functions ask for are evaluated, with TensorFlow's own
// kernels (op_evaluation.h), from constants and from shapes that are known; nothing else is. Each op is looked at after
// what it reads, so a chain of any length is resolved in one pass. In loops a value is only what is the same in every
// iteration; the shape of a loop's variable is taken to be that of its first value, which is checked afterwards.
//
// What is still not known then may follow from whole numbers that the first call was given (the dense shape of a sparse
// tensor); other calls may bring others, so what the run shows counts more, and goes on being looked at. All else rests
// on an assumption: arguments of which nobody knows the size, and results whose size only the data decides. In a second
// pass these are taken for `assumed_dim`, where they arise, and followed through the
// graph like any other size; each tensor knows the assumptions that its size rests on. What earlier steps have shown of
// such results (size_record.h) is no assumption: they are known to be so large.
//
// The graph is only read. Linear in nodes and inputs, for at most kMostRounds passes; evaluations are counted, not
// timed. For one thread.

#ifndef LMS_CC_TF_SIZES_SHAPE_VALUES_H_
#define LMS_CC_TF_SIZES_SHAPE_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/base/deadline.h"
#include "cc/core/options/recorded_shapes.h"
#include "cc/tf/sizes/op_evaluation.h"
#include "cc/tf/sizes/shape_graph.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace lms {

// Assumptions, one bit each; the last bit stands for all further ones.
using AssumptionSet = uint64_t;
inline constexpr int kMostAssumptions = 64;
inline constexpr AssumptionSet kUnnamedAssumption = AssumptionSet{1} << (kMostAssumptions - 1);
// No assumption, but followed in the same way: what the first call was given. Nobody outside ShapeValues sees it.
inline constexpr int kSeenNumberBit = kMostAssumptions - 2;
inline constexpr AssumptionSet kSeenNumber = AssumptionSet{1} << kSeenNumberBit;

// Where the shape of what is taken out of a tensor list comes from (list_shapes.h).
struct ListLink {
  enum class Kind {
    kElement,  // has the shape of the sources
    kRow,      // has that shape without its first dimension
    kStack,    // has that shape, and a dimension of `count` before it
  };
  int node;  // that takes it out
  int port;
  Kind kind;
  std::vector<TensorRef> sources;  // each a node, and the number of the input that it puts in
  int64_t count = -1;
  bool operator==(const ListLink& other) const {
    return node == other.node && port == other.port && kind == other.kind && sources == other.sources &&
           count == other.count;
  }
};

class ShapeValues {
 public:
  using Properties = tensorflow::OpInfo::TensorProperties;
  // By node: what to call the dimensions that it leaves unknown. Others are called by the node's name.
  using Labels = std::unordered_map<std::string, std::vector<std::string>>;

  // By node that brings an argument into the graph: what it held in the first call, a scalar or a vector.
  using SeenNumbers = std::unordered_map<std::string, std::vector<int64_t>>;

  // `properties` were inferred, with values of inputs, on the graph. All must outlive this.
  ShapeValues(const tensorflow::GraphDef& graph, const tensorflow::grappler::GraphProperties& properties,
              int64_t assumed_dim, const Labels& labels, const RecordedShapes& recorded = {},
              const SeenNumbers& seen = {});

  void Refine(const Deadline& deadline = Deadline());
  // The same with what is known of tensor lists; false, and nothing done, where these links are known already.
  bool Refine(std::vector<ListLink> links, const Deadline& deadline);

  // As shape inference says, or better; of inputs also the values, as far as they are known.
  const std::vector<Properties>& OutputsOf(const std::string& node) const;
  const std::vector<Properties>& InputsOf(const std::string& node) const;

  // What the size of the tensor rests on; 0 where it is known, or not even assumed.
  AssumptionSet AssumptionsOf(const std::string& node, int port) const;
  // By bit; what the last one stands for has no name of its own.
  const std::vector<std::vector<std::string>>& assumptions() const { return labels_of_; }

  // The nodes where sizes arise that no plan can know before the run, in the graph's order.
  struct OpenNode {
    std::string name;
    bool recorded = false;  // some are known from earlier steps
    bool told = false;      // they follow from what the first call was given, and rest on nothing else
    int results = 0;
    int64_t elements = 0;  // of its largest result, as it was assumed; -1: of one not even the rank is known
  };
  std::vector<OpenNode> OpenNodes() const;
  // "Where:0 = 57 (earlier steps)": the recorded sizes that were needed.
  std::vector<std::string> RecordedLines() const;
  // "links_2 = [1200, 1200] (first call)": the numbers of the first call that sizes follow from.
  std::vector<std::string> SeenLines() const;

  // The value of a whole number that the graph makes of shapes and constants alone, not of what one call was given.
  std::optional<int64_t> ScalarOf(const std::string& node, int port);

  int evaluations() const { return evaluator_.runs(); }

 private:
  using Tensor = tensorflow::Tensor;
  using Shape = tensorflow::TensorShapeProto;
  using Outputs = std::vector<Properties>;

  static constexpr int kMostRounds = 4;  // of the first pass; the last one takes no shape in a loop for granted

  // Facts.
  const Outputs& Facts(int node) const { return refined_[node].empty() ? *inferred_[node] : refined_[node]; }
  const Shape* ShapeOf(const TensorRef& tensor) const;
  const Properties* PropertiesOf(const TensorRef& tensor) const;
  bool IsOpen(int node) const;
  bool Learn(int node, int port, const Shape& shape);

  // Passes.
  void Reset();
  void Pass(Pace* pace);
  void Visit(int node);
  void VisitDecidedByKernel(int node);
  void VisitGathered(int node);
  void VisitMerge(int node);
  void VisitLoopVariable(int merge, int back);
  void VisitLinked(int node);
  void VisitHeld(int node);
  bool Infer(int node);
  bool Contradicted();  // what was taken for granted in loops; then it no longer is
  void Recall(int node);
  bool LeavesOpen(int node) const;
  void Assume(int node);
  AssumptionSet InputAssumptions(int node) const;
  AssumptionSet AssumptionsOf(const TensorRef& tensor) const;
  TensorRef InputOf(const TensorRef& source) const;  // node -1 where there is none
  void RefineInputs();

  // Values.
  struct Values {
    enum class State : uint8_t { kNew, kAsked, kDone } state = State::kNew;
    std::vector<std::optional<Tensor>> outputs;
    AssumptionSet assumptions = 0;
  };
  const Tensor* ValueOf(const TensorRef& tensor);
  const Tensor* Known(const TensorRef& tensor) const;
  // The values that the node's own are made of; false where it can have none.
  bool Needs(int node, std::vector<TensorRef>* needed) const;
  bool IsSeen(int node) const { return assuming_ && seen_.count(node) != 0; }
  std::optional<Tensor> SeenTensor(int node) const;
  void Evaluate(int node, const std::vector<TensorRef>& needed);
  void EvaluateShape(int node);
  bool SmallOutputs(int node, const std::vector<const Tensor*>& inputs);
  // What the Optional may hold whose value the node takes out.
  std::vector<TensorRef> HeldTensors(int node, int port) const;
  // The outcome of the predicate with which the node runs; -1 where its nearest inputs do not say.
  int BranchOf(int node, const TensorRef& predicate) const;
  const ListLink* LinkOf(int node) const;

  const ShapeGraph graph_;
  const int64_t assumed_dim_;
  const Labels& labels_;
  std::vector<const Outputs*> inferred_;         // per node
  std::vector<const Outputs*> inferred_inputs_;  // per node
  std::vector<Outputs> refined_;                 // per node; empty: as inferred
  std::unordered_map<int, Outputs> inputs_;      // per node of which an input is known better
  std::vector<ListLink> links_;
  std::unordered_map<int, std::vector<size_t>> links_of_;  // per node
  std::vector<int> order_;
  bool assuming_ = false;  // the second pass
  bool granting_ = true;   // shapes of loops' variables are those of their first values
  // Of loops' variables: the dimensions that were taken for granted, and those that must not be; all of them where the
  // list is empty.
  std::unordered_map<int, std::vector<int>> granted_;
  std::unordered_map<int, std::vector<int>> denied_;
  std::vector<Values> values_;
  OpEvaluator evaluator_;
  std::unordered_map<int, std::vector<bool>> open_;                       // per node and port, after the first pass
  std::vector<AssumptionSet> rests_on_;                                   // per node
  std::vector<std::vector<std::string>> labels_of_;                       // per assumption
  std::unordered_map<int, std::vector<std::pair<int, Shape>>> recorded_;  // per node: port and shape
  std::map<int, std::vector<int64_t>> seen_;                              // per node: numbers of the first call
  std::set<int> arises_;                                                  // nodes that leave sizes open by themselves
  std::vector<std::string> recalled_;  // words on the recorded sizes that were needed
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_SHAPE_VALUES_H_
