#include "cc/tf/sizes/dimensions.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cc/core/options/argument_sizes.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace lms {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::TensorShapeProto;
using Words = std::unordered_set<std::string>;

bool IsOneOf(const Words& words, const std::string& word) { return words.count(word) != 0; }

// Ops whose outputs have the shapes of their attribute output_shapes, or hold tensors of them.
bool HandsOutElements(const NodeDef& node) {
  static const auto* const ops =
      new Words{"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "OptionalGetValue"};
  return IsOneOf(*ops, node.op());
}

bool HandsOn(const NodeDef& node) {
  static const auto* const ops =
      new Words{"Identity", "Enter", "Exit", "Switch", "Merge", "NextIteration", "IteratorGetNextAsOptional"};
  return IsOneOf(*ops, node.op());
}

bool IsIterator(const NodeDef& node) {
  static const auto* const ops = new Words{"_Arg",
                                           "Iterator",
                                           "IteratorV2",
                                           "OneShotIterator",
                                           "AnonymousIterator",
                                           "AnonymousIteratorV2",
                                           "AnonymousIteratorV3",
                                           "IteratorFromStringHandle",
                                           "IteratorFromStringHandleV2"};
  return IsOneOf(*ops, node.op());
}

const tensorflow::AttrValue* FindAttr(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

std::optional<TensorShape> AsShape(const TensorShapeProto& proto) {
  if (proto.unknown_rank()) return std::nullopt;
  TensorShape shape;
  for (const auto& dim : proto.dim()) shape.push_back(std::max<int64_t>(dim.size(), -1));
  return shape;
}

// The name of the node that an input comes from.
std::string_view NodeOf(std::string_view input) { return input.substr(input[0] == '^' ? 1 : 0, input.find(':')); }

// Of what a handle stands for, where the node is one that brings it into the graph and says so; else null.
const TensorShapeProto* ShapeOfVariable(const NodeDef& node) {
  const bool made = node.op() == "VarHandleOp";
  const auto* attr = FindAttr(node, made ? "shape" : "_handle_shapes");
  if (attr == nullptr || (!made && node.op() != "_Arg")) return nullptr;
  if (made) return &attr->shape();
  return attr->list().shape_size() == 0 ? nullptr : &attr->list().shape(0);
}

// The node's shapes, where it is one that brings them into the graph; else null.
TensorShapeProto* ShapeOfInput(NodeDef* node) {
  const bool argument = node->op() == "_Arg";
  if (!argument && node->op() != "Placeholder") return nullptr;
  const auto found = node->mutable_attr()->find(argument ? "_output_shapes" : "shape");
  if (found == node->mutable_attr()->end()) return nullptr;
  if (!argument) return found->second.mutable_shape();
  return found->second.list().shape_size() == 0 ? nullptr : found->second.mutable_list()->mutable_shape(0);
}

// Where shapes enter one graph.
class Entrances {
 public:
  explicit Entrances(const GraphDef& graph) : graph_(graph) {
    node_.reserve(graph.node_size());
    for (int i = 0; i < graph.node_size(); ++i) node_[graph.node(i).name()] = i;
    for (int i = 0; i < graph.node_size(); ++i) AddInput(i);
    for (int i = 0; i < graph.node_size(); ++i) {
      if (HandsOutElements(graph.node(i))) AddElements(i);
    }
  }

  const std::vector<Argument>& arguments() const { return arguments_; }

  // The names of the nodes that bring the dimension's tensor into the graph.
  std::vector<std::string> NodesOf(const BoundDim& dim) const {
    std::vector<std::string> names;
    for (const int n : places_[dim.argument]) names.push_back(graph_.node(n).name());
    return names;
  }

  // Gives the dimensions of `graph`, a copy, their sizes.
  void Bind(const std::vector<BoundDim>& bound, GraphDef* graph) const {
    for (const BoundDim& dim : bound) {
      for (const int n : places_[dim.argument]) {
        NodeDef* node = graph->mutable_node(n);
        TensorShapeProto* shape = ShapeOfInput(node);
        if (HandsOutElements(*node)) {
          auto* shapes = (*node->mutable_attr())["output_shapes"].mutable_list();
          if (dim.tensor >= static_cast<size_t>(shapes->shape_size())) continue;
          shape = shapes->mutable_shape(static_cast<int>(dim.tensor));
        }
        if (shape == nullptr || dim.dim >= static_cast<size_t>(shape->dim_size())) continue;
        auto* const place = shape->mutable_dim(static_cast<int>(dim.dim));
        if (place->size() < 0) place->set_size(dim.size);
      }
    }
  }

 private:
  void AddInput(int n) {
    const NodeDef& node = graph_.node(n);
    if (node.op() != "_Arg" && node.op() != "Placeholder") return;
    Argument argument;
    argument.name = node.name();
    if (const auto* name = FindAttr(node, "_user_specified_name")) argument.user_name = name->s();
    if (const auto* index = FindAttr(node, "index")) argument.number = static_cast<int>(index->i());
    NodeDef copy;  // for the one way to find the shape
    *copy.mutable_attr() = node.attr();
    copy.set_op(node.op());
    if (const TensorShapeProto* shape = ShapeOfInput(&copy)) argument.tensors.push_back(AsShape(*shape));
    const auto* type = FindAttr(node, "T");
    const bool handle =
        type != nullptr && (type->type() == tensorflow::DT_RESOURCE || type->type() == tensorflow::DT_VARIANT);
    if (handle) argument.tensors.clear();  // the shape of a handle says nothing
    argument_of_[n] = arguments_.size();
    arguments_.push_back(std::move(argument));
    places_.push_back({n});
  }

  void AddElements(int n) {
    const auto* shapes = FindAttr(graph_.node(n), "output_shapes");
    const int source = Source(n);
    if (shapes == nullptr || source < 0) return;
    const auto [found, added] = argument_of_.emplace(source, arguments_.size());
    if (added) {
      arguments_.emplace_back();
      arguments_.back().name = graph_.node(source).name();
      places_.emplace_back();
    }
    Argument& argument = arguments_[found->second];
    argument.iterator = true;
    if (argument.tensors.empty()) {
      for (const auto& shape : shapes->list().shape()) argument.tensors.push_back(AsShape(shape));
    }
    // Another element of the same iterator has the same shapes; what has others is none of it.
    if (argument.tensors.size() != static_cast<size_t>(shapes->list().shape_size())) return;
    places_[found->second].push_back(n);
  }

  // The node that makes, or is handed, the iterator that the node takes its elements from; -1 where that is not known.
  int Source(int n) const {
    int source = -1;
    std::unordered_set<int> seen;
    std::vector<int> open = {n};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      const NodeDef& node = graph_.node(at);
      if (at != n && !HandsOn(node)) {
        if (!IsIterator(node) || (source >= 0 && source != at)) return -1;
        source = at;
        continue;
      }
      const int inputs = node.op() == "Merge" ? node.input_size() : std::min(node.input_size(), 1);
      for (int i = 0; i < inputs; ++i) {
        const std::string_view input = node.input(i);
        if (input.empty() || input[0] == '^') continue;
        const auto found = node_.find(input.substr(0, input.find(':')));
        if (found == node_.end()) return -1;
        open.push_back(found->second);
      }
    }
    return source;
  }

  const GraphDef& graph_;
  std::unordered_map<std::string_view, int> node_;
  std::unordered_map<int, size_t> argument_of_;  // by node
  std::vector<Argument> arguments_;
  std::vector<std::vector<int>> places_;  // per argument: the nodes that hold its shapes
};

using Values = std::vector<int64_t>;

// Of each VariableShape whose variable the graph knows: the sizes, by the node's name. Shape inference knows no more of
// them than how many they are, and a loop's gradient begins with zeros of these shapes.
std::unordered_map<std::string, Values> ShapesOfVariables(const GraphDef& graph) {
  std::unordered_map<std::string_view, const NodeDef*> nodes;
  std::vector<const NodeDef*> asked;
  for (const NodeDef& node : graph.node()) {
    if (node.op() == "VariableShape") asked.push_back(&node);
  }
  if (asked.empty()) return {};
  for (const NodeDef& node : graph.node()) nodes[node.name()] = &node;
  std::unordered_map<std::string, Values> known;
  for (const NodeDef* node : asked) {
    const NodeDef* variable = node;
    // From the body of a loop or a branch to what was handed into it.
    do {
      const auto found = variable->input_size() == 0 ? nodes.end() : nodes.find(NodeOf(variable->input(0)));
      variable = found == nodes.end() ? nullptr : found->second;
    } while (variable != nullptr &&
             (variable->op() == "Identity" || variable->op() == "Enter" || variable->op() == "Switch"));
    const TensorShapeProto* shape = variable == nullptr ? nullptr : ShapeOfVariable(*variable);
    if (shape == nullptr || shape->unknown_rank()) continue;
    Values sizes;
    for (const auto& dim : shape->dim()) sizes.push_back(dim.size());
    if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; })) known[node->name()] = sizes;
  }
  return known;
}

// Every input that `instead` has becomes what it says.
void Reconnect(const std::unordered_map<std::string, std::string>& instead, GraphDef* graph) {
  if (instead.empty()) return;
  for (NodeDef& node : *graph->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      const auto found = instead.find(input);
      if (found != instead.end()) input = found->second;
    }
  }
}

void AddConstant(const std::string& name, const NodeDef& like, const Values& values, GraphDef* graph) {
  const char* const attr = like.op() == "VariableShape" ? "out_type" : "T";
  const tensorflow::DataType type = like.attr().count(attr) != 0 ? like.attr().at(attr).type() : tensorflow::DT_INT32;
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op("Const");
  node->set_device(like.device());
  (*node->mutable_attr())["dtype"].set_type(type);
  auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
  tensor->set_dtype(type);
  tensor->mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) {
    if (type == tensorflow::DT_INT64) {
      tensor->add_int64_val(value);
    } else {
      tensor->add_int_val(static_cast<int32_t>(value));
    }
  }
}

}  // namespace

Dimensions::Dimensions(const tensorflow::grappler::GrapplerItem& item, const Options& options)
    : item_(item),
      rest_(options.unknown_dim.everywhere > 0 ? options.unknown_dim.everywhere : kAssumedDim),
      recorded_(options.recorded),
      data_may_end_(options.data_may_end),
      earlier_constants_(options.earlier_constants) {
  const Entrances entrances(item.graph);
  const ArgumentSizes sizes =
      SizeArguments(entrances.arguments(), options.unknown_dim, options.seen_sizes, kAssumedDim);
  lines_ = sizes.lines;
  problems_ = sizes.problems;
  strange_ = sizes.strange;
  for (const SeenValue& value : options.seen_values) {
    for (const Argument& argument : entrances.arguments()) {
      if (argument.number == value.argument && !argument.iterator) seen_[argument.name] = value.numbers;
    }
  }
  for (size_t i = 0; i < sizes.open.size(); ++i) {
    for (const std::string& node : entrances.NodesOf(sizes.open[i])) open_[node].push_back(sizes.assumed[i]);
  }
  const std::unordered_map<std::string, Values> shapes = ShapesOfVariables(item.graph);
  if (sizes.bound.empty() && shapes.empty() && item.graph.library().function_size() == 0) return;
  copy_ = std::make_unique<tensorflow::grappler::GrapplerItem>(item);
  entrances.Bind(sizes.bound, &copy_->graph);
  FoldVariableShapes(shapes);
  calls_.WriteOut(&copy_->graph);
}

void Dimensions::FoldVariableShapes(const std::unordered_map<std::string, std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return;
  std::unordered_map<std::string, std::string> instead;
  for (int i = 0, nodes = copy_->graph.node_size(); i < nodes; ++i) {
    const auto found = shapes.find(copy_->graph.node(i).name());
    if (found == shapes.end()) continue;
    AddConstant(found->first + "/lms_value_0", copy_->graph.node(i), found->second, &copy_->graph);
    instead[found->first] = found->first + "/lms_value_0";
  }
  Reconnect(instead, &copy_->graph);
}

}  // namespace lms
