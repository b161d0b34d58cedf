// How large each tensor of a graph is, and how long each op takes: what shape inference and TensorFlow's own cost
// estimator say, computed once and looked up by node name (a recomputation has its original's figures).
//
// Sizes of arguments come bound (dimensions.h), what is computed from shapes is evaluated (shape_values.h); what is
// unknown even so is taken for one number, and each size knows which assumptions it rests on.
// An op that the estimator does not know is priced by the bytes that it reads and writes (at a GPU's own bandwidth),
// never as free.

#ifndef LMS_CC_TF_SIZES_TENSOR_SIZES_H_
#define LMS_CC_TF_SIZES_TENSOR_SIZES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "cc/core/base/deadline.h"
#include "cc/core/profile/profile.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/gpu_workspace.h"
#include "cc/tf/sizes/shape_values.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

struct TensorSize {
  int64_t bytes = 0;
  bool known = false;             // false: rank or type leaves it open; bytes is 0
  AssumptionSet assumptions = 0;  // that it rests on; 0: none
};

struct NodeFigures {
  std::vector<TensorSize> outputs;
  int64_t workspace_bytes = 0;  // of the kernel (workspace.h, gpu_workspace.h)
  int rows_of = -1;             // the input in whose storage the outputs lie (row_slices.h); -1: none
  double cost_us = 0;
  bool profiled = false;  // the cost was measured
  std::string op_key;     // "" where costs are estimated without a profile
};

// Bytes of the variable that the node makes a handle to, or is handed as an argument; 0 where its type and shape are
// not known from the node alone.
int64_t VariableBytes(const tensorflow::NodeDef& node);

class TensorSizes {
 public:
  // The item must outlive this. `unknown_dim`: what unknown dimensions are taken for.
  TensorSizes(const tensorflow::grappler::GrapplerItem& item, int64_t unknown_dim);
  // Where the sizes that the arguments were bound to contradict the graph, its own word counts: 32 assumed rows cannot
  // be reshaped to [-1, 7].
  explicit TensorSizes(const Dimensions* dimensions);  // which must outlive this

  // Kernels are those of the devices of `cluster`, which may be null: then of this CPU. Before Infer.
  void UseDevices(tensorflow::grappler::Cluster* cluster);

  // Is told when what the graph computes from shapes begins to be evaluated (true), and when that has ended.
  using Watch = std::function<void(bool)>;

  // Shapes and sizes of all tensors.
  absl::Status Infer(const Deadline& deadline = Deadline(), const Watch& watch = nullptr);

  // Once more, with what is known of tensor lists (list_shapes.h), where that says more. `index` belongs to the item.
  absl::Status InferLists(const GraphIndex& index, const Deadline& deadline = Deadline(), const Watch& watch = nullptr);

  // What the bits of a TensorSize's assumptions stand for: names of dimensions. Those of the last bit have none.
  const std::vector<std::vector<std::string>>& assumptions() const;

  // May a step fail where it takes an element, as there is none left?
  bool data_may_end() const { return dimensions_ != nullptr && dimensions_->data_may_end(); }

  // Bytes of constants on the device that are of plans which the function had before.
  int64_t EarlierConstants(const std::string& device) const;

  // See ShapeValues.
  std::vector<ShapeValues::OpenNode> OpenNodes() const;
  std::vector<std::string> RecordedLines() const;
  std::vector<std::string> SeenLines() const;

  // "while/LoopCond = 12 iterations (earlier steps)": of all loops that were recorded.
  std::vector<std::string> RecordedLoops() const;
  // How often the loop has gone round, at most, in earlier steps; -1 where that was not recorded.
  int64_t RecordedTrips(const std::string& loop_cond) const;

  // The value of a whole number that the graph makes of shapes and constants alone, not of what one call was given;
  // nothing where it does not.
  std::optional<int64_t> ScalarOf(const std::string& node, int port) const;

  // Is all known of what a call takes that XLA compiles, on a CPU (workspace.h)?
  bool KnowsCompiled(const std::string& call) const;

  // Ops that were evaluated to know sizes.
  int evaluations() const { return values_ == nullptr ? 0 : values_->evaluations(); }

  // Costs of all ops, for the devices of `cluster`, which may be null: estimates, or prices by what was measured where
  // that is given.
  void EstimateCosts(tensorflow::grappler::Cluster* cluster, const ProfilePrices* prices = nullptr);

  // What the node makes according to its attributes output_types and output_shapes, all components together: the
  // element that an Optional holds. Not known where they do not say.
  TensorSize OfElement(const tensorflow::NodeDef& node) const;

  // Figures of the node or of the one that it copies; none known for nodes that were not there.
  const NodeFigures& Of(const std::string& node_name) const;

 private:
  absl::Status ReadSizes();
  TensorSize SizeOfOutput(const std::string& node, size_t port, const tensorflow::OpInfo::TensorProperties& made) const;
  // The body of a call, where it is written out; else null.
  const CallBody* BodyOf(const std::string& node) const;
  // Of a call: those of its body's results, where that is written out; they are kept in `made`.
  const std::vector<tensorflow::OpInfo::TensorProperties>& OutputsOf(
      const std::string& node, std::vector<tensorflow::OpInfo::TensorProperties>* made) const;
  std::vector<tensorflow::OpInfo::TensorProperties> BoundInputsOf(const std::string& node) const;
  int64_t WorkspaceOf(const tensorflow::NodeDef& node) const;
  // Of what is placed on a GPU.
  GpuWorkspace OnGpu(const tensorflow::NodeDef& node, const GpuKernels& gpu) const;
  absl::Status InferUnbound();

  const tensorflow::grappler::GrapplerItem& item_;
  const tensorflow::grappler::GrapplerItem& original_;
  const Dimensions* dimensions_ = nullptr;
  int64_t unknown_dim_;
  std::unordered_map<std::string, GpuKernels> gpus_;  // by device
  const ShapeValues::Labels no_labels_;
  std::unique_ptr<tensorflow::grappler::GraphProperties> properties_;
  std::unique_ptr<ShapeValues> values_;                                // of the properties
  std::unordered_map<std::string, const tensorflow::NodeDef*> nodes_;  // of the item, by name
  absl::flat_hash_map<std::string, NodeFigures> figures_;
  NodeFigures none_;
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_TENSOR_SIZES_H_
