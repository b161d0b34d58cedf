// Small TensorFlow graphs for tests, and the stages up to import run on them.
//
// Everything is placed on one CPU. A node is named by its caller; attributes that are left out get their defaults.
// Float tensors unless said. All functions crash the test on a mistake in the graph under construction.

#ifndef LMS_TESTS_CC_TF_GRAPH_BUILDER_H_
#define LMS_TESTS_CC_TF_GRAPH_BUILDER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/text/text_format.h"
#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms::testing {

inline constexpr char kCpu[] = "/job:localhost/replica:0/task:0/device:CPU:0";
inline constexpr char kOtherCpu[] = "/job:localhost/replica:0/task:0/device:CPU:1";

using Attr = std::pair<std::string, tensorflow::AttrValue>;
using Dims = std::vector<int64_t>;

inline Attr Type(const std::string& name, tensorflow::DataType type) {
  Attr attr{name, {}};
  attr.second.set_type(type);
  return attr;
}

inline Attr Types(const std::string& name, const std::vector<tensorflow::DataType>& types) {
  Attr attr{name, {}};
  attr.second.mutable_list();
  for (const tensorflow::DataType type : types) attr.second.mutable_list()->add_type(type);
  return attr;
}

inline Attr Int(const std::string& name, int64_t value) {
  Attr attr{name, {}};
  attr.second.set_i(value);
  return attr;
}

inline Attr Bool(const std::string& name, bool value) {
  Attr attr{name, {}};
  attr.second.set_b(value);
  return attr;
}

inline Attr Text(const std::string& name, const std::string& value) {
  Attr attr{name, {}};
  attr.second.set_s(value);
  return attr;
}

inline Attr Shape(const std::string& name, const Dims& dims) {
  Attr attr{name, {}};
  attr.second.mutable_shape();
  for (const int64_t dim : dims) attr.second.mutable_shape()->add_dim()->set_size(dim);
  return attr;
}

inline Attr Float32(const std::string& name = "T") { return Type(name, tensorflow::DT_FLOAT); }

class GraphBuilder {
 public:
  GraphBuilder() {
    item_.id = "step";
    // As a function's graph: ops with side effects run whether or not a result depends on them.
    item_.optimization_options().allow_pruning_stateful_and_dataset_ops = false;
  }

  tensorflow::NodeDef* Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attr>& attrs = {}) {
    tensorflow::NodeDef* node = item_.graph.add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device(kCpu);
    for (const std::string& input : inputs) node->add_input(input);
    for (const auto& [key, value] : attrs) (*node->mutable_attr())[key] = value;
    const tensorflow::OpDef* op_def = nullptr;
    EXPECT_TRUE(tensorflow::OpRegistry::Global()->LookUpOpDef(op, &op_def).ok()) << op;
    if (op_def != nullptr) tensorflow::AddDefaultsToNodeDef(*op_def, node);
    return node;
  }

  // An op whose attribute T is float, the most usual kind.
  tensorflow::NodeDef* Float(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                             std::vector<Attr> attrs = {}) {
    attrs.push_back(Float32());
    return Add(name, op, inputs, attrs);
  }

  void Feed(const std::string& name, const Dims& dims) {
    Add(name, "Placeholder", {}, {Float32("dtype"), Shape("shape", dims)});
    item_.feed.emplace_back(name, tensorflow::Tensor());
  }

  void Constant(const std::string& name, const Dims& dims, tensorflow::DataType type = tensorflow::DT_FLOAT) {
    Attr value{"value", {}};
    value.second.mutable_tensor()->set_dtype(type);
    for (const int64_t dim : dims) value.second.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(dim);
    if (type == tensorflow::DT_FLOAT) value.second.mutable_tensor()->add_float_val(0.5F);
    if (type == tensorflow::DT_INT32) value.second.mutable_tensor()->add_int_val(1);
    if (type == tensorflow::DT_BOOL) value.second.mutable_tensor()->add_bool_val(true);
    Add(name, "Const", {}, {Type("dtype", type), value});
  }

  // A shape as a constant: int32 values.
  void ShapeConstant(const std::string& name, const std::vector<int>& dims) {
    Attr value{"value", {}};
    value.second.mutable_tensor()->set_dtype(tensorflow::DT_INT32);
    value.second.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(dims.size()));
    for (const int dim : dims) value.second.mutable_tensor()->add_int_val(dim);
    Add(name, "Const", {}, {Type("dtype", tensorflow::DT_INT32), value});
  }

  void Variable(const std::string& name, const Dims& dims) {
    Add(name, "VarHandleOp", {}, {Float32("dtype"), Shape("shape", dims), Text("shared_name", name)});
  }

  void Read(const std::string& name, const std::string& variable, std::vector<std::string> controls = {}) {
    controls.insert(controls.begin(), variable);
    Add(name, "ReadVariableOp", controls, {Float32("dtype")});
  }

  void Update(const std::string& name, const std::string& variable, const std::string& value,
              const std::vector<std::string>& controls = {}) {
    std::vector<std::string> inputs{variable, value};
    inputs.insert(inputs.end(), controls.begin(), controls.end());
    Add(name, "AssignSubVariableOp", inputs, {Float32("dtype")});
  }

  void Fetch(const std::string& name) { item_.fetch.push_back(name); }

  // A graph in words, statements with semicolons between them:
  //   x[256, 64]                       Feed()
  //   p = Placeholder                  that is not fed, a bool
  //   axes{0, 1}                       ShapeConstant()
  //   w = VarHandleOp[64]              Variable(), and with Const a Constant()
  //   r = ReadVariableOp(w, ^x)        Read()
  //   u = AssignSubVariableOp(w, y)    Update()
  //   y = AddN(x, r, ^w)               Float(), with the number of inputs where the op wants it
  //   fetch y, u                       Fetch() of each
  void Parse(const std::string& text) {
    for (const std::string& statement : Parts(text, ';')) ParseStatement(statement);
  }

  tensorflow::grappler::GrapplerItem& item() { return item_; }

 private:
  void ParseStatement(const std::string& statement) {
    if (statement.rfind("fetch ", 0) == 0) {
      for (const std::string& name : Parts(statement.substr(6), ',')) Fetch(name);
      return;
    }
    const size_t open = std::min(statement.find_first_of("[{("), statement.size());
    const size_t equals = std::min(statement.find(" = "), open);
    const std::string name = statement.substr(0, equals);
    const std::string op = equals < open ? statement.substr(equals + 3, open - equals - 3) : "";
    if (open == statement.size()) {
      Add(name, op, {}, {Type("dtype", tensorflow::DT_BOOL)});
      return;
    }
    const std::vector<std::string> list = Parts(statement.substr(open + 1, statement.size() - open - 2), ',');
    if (statement[open] != '(') {
      Dims dims;
      for (const std::string& dim : list) dims.push_back(std::stoll(dim));
      if (statement[open] == '{') {
        ShapeConstant(name, {dims.begin(), dims.end()});
      } else if (op == "VarHandleOp") {
        Variable(name, dims);
      } else if (op == "Const") {
        Constant(name, dims);
      } else {
        Feed(name, dims);
      }
      return;
    }
    std::vector<Attr> attrs{Float32(op == "ReadVariableOp" || op == "AssignSubVariableOp" ? "dtype" : "T")};
    if (op == "AddN" || op == "AccumulateNV2" || op == "Merge") {
      attrs.push_back(Int("N", std::count_if(list.begin(), list.end(), [](const auto& in) { return in[0] != '^'; })));
    }
    Add(name, op, list, attrs);
  }

  static std::vector<std::string> Parts(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream >> std::ws, part, separator);) parts.push_back(part);
    return parts;
  }

  tensorflow::grappler::GrapplerItem item_;
};

// Bytes of a [256, 64] float tensor: the unit of the chain below.
inline constexpr int64_t kTile = 256 * 64 * 4;

// A training step: y_i = Tanh(MatMul(y_{i-1}, w_i)) with y_0 fed, and its backward pass, which reads each y_i once in
// reverse. Weights are variables of [64, 64] (16 KiB; of [128, 128] 64), every activation and gradient is a tile (64
// KiB; 128), "loss" is fetched.
//   forward   read_i, matmul_i, tanh_i
//   backward  tanh_grad_i (tanh_i, grad_i) -> input_grad_i (its product with w_i), weight_grad_i (with y_{i-1}),
//   update_i
inline tensorflow::grappler::GrapplerItem TrainChain(int layers, int64_t width = 64) {
  GraphBuilder b;
  b.Feed("x", {256, width});
  std::string y = "x";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    b.Variable("w_" + n, {width, width});
    b.Read("read_" + n, "w_" + n);
    b.Float("matmul_" + n, "MatMul", {y, "read_" + n});
    b.Float("tanh_" + n, "Tanh", {"matmul_" + n});
    y = "tanh_" + n;
  }
  b.ShapeConstant("axes", {0, 1});
  b.Float("loss", "Sum", {y, "axes"}, {Type("Tidx", tensorflow::DT_INT32)});
  b.Fetch("loss");
  b.Float("first_grad", "Sigmoid", {y});
  std::string grad = "first_grad";
  for (int i = layers - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    const std::string before = i == 0 ? "x" : "tanh_" + std::to_string(i - 1);
    b.Float("tanh_grad_" + n, "TanhGrad", {"tanh_" + n, grad});
    b.Float("weight_grad_" + n, "MatMul", {before, "tanh_grad_" + n}, {Bool("transpose_a", true)});
    if (i > 0) b.Float("input_grad_" + n, "MatMul", {"tanh_grad_" + n, "read_" + n}, {Bool("transpose_b", true)});
    b.Update("update_" + n, "w_" + n, "weight_grad_" + n);
    grad = "input_grad_" + n;
  }
  return b.item();
}

// The stages up to import.
class Imported {
 public:
  struct Unsound {};  // it may be that the graph cannot be imported

  explicit Imported(tensorflow::grappler::GrapplerItem item) : Imported(std::move(item), Unsound()) {
    EXPECT_TRUE(status_.ok()) << status_;
    MemGraph again;  // a dump of it can be read
    if (!status_.ok()) return;
    EXPECT_EQ(ReadGraph(WriteGraph(graph()), "the graph", GraphReadOptions(), &again), "");
  }
  Imported(tensorflow::grappler::GrapplerItem item, Unsound /*unsound*/) : item_(std::move(item)), sizes_(item_, 32) {
    status_ = index_.Build(item_);
    if (status_.ok()) status_ = sizes_.Infer();
    if (status_.ok()) status_ = ImportGraph(item_, index_, sizes_, &imported_);
  }
  // To be planned: the regions that these nodes are in.
  Imported(tensorflow::grappler::GrapplerItem item, const std::vector<std::string>& in_regions)
      : Imported(std::move(item)) {
    std::vector<int> regions;
    for (const std::string& node : in_regions) regions.push_back(index_[index_.Find(node)].region);
    if (status_.ok()) status_ = ImportRegions(item_, index_, sizes_, regions, /*hold=*/false, &imported_);
    EXPECT_TRUE(status_.ok()) << status_;
  }

  const absl::Status& status() const { return status_; }
  const tensorflow::grappler::GrapplerItem& item() const { return item_; }
  const GraphIndex& index() const { return index_; }
  const TensorSizes& sizes() const { return sizes_; }
  const ImportedGraph& imported() const { return imported_; }
  const MemGraph& graph() const { return imported_.graph; }

  OpId OpOf(const std::string& node) const { return imported_.op_of_node.at(index_.Find(node)); }
  const MemOp& Op(const std::string& node) const { return graph().ops.at(OpOf(node)); }
  BufferId BufferIdOf(const std::string& node, int port = 0) const {
    return imported_.buffer_of_port.at(index_.Find(node)).at(port);
  }
  const MemBuffer& Buffer(const std::string& node, int port = 0) const {
    return graph().buffers.at(BufferIdOf(node, port));
  }
  bool Reads(const std::string& node, const std::string& tensor_of) const {
    const std::vector<BufferId>& inputs = Op(node).inputs;
    return std::find(inputs.begin(), inputs.end(), BufferIdOf(tensor_of)) != inputs.end();
  }
  bool MayForward(const std::string& node, const std::string& tensor_of) const {
    const std::vector<BufferId>& inputs = Op(node).forwardable;
    return std::find(inputs.begin(), inputs.end(), BufferIdOf(tensor_of)) != inputs.end();
  }

 private:
  tensorflow::grappler::GrapplerItem item_;
  TensorSizes sizes_;
  GraphIndex index_;
  ImportedGraph imported_;
  absl::Status status_;
};

inline const tensorflow::NodeDef* FindNode(const tensorflow::GraphDef& graph, const std::string& name) {
  for (const auto& node : graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

inline bool HasInput(const tensorflow::GraphDef& graph, const std::string& node, const std::string& input) {
  const tensorflow::NodeDef* found = FindNode(graph, node);
  return found != nullptr && std::find(found->input().begin(), found->input().end(), input) != found->input().end();
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_GRAPH_BUILDER_H_
