#include "cc/tf/list_shapes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms {
namespace {

using tensorflow::TensorShapeProto;

bool Known(const TensorShapeProto& shape) {
  return !shape.unknown_rank() &&
         std::all_of(shape.dim().begin(), shape.dim().end(), [](const auto& dim) { return dim.size() >= 0; });
}

// The output that is an element; -1 where the node takes none out.
int ElementOutput(const std::string& op) {
  if (op == "TensorListPopBack") return 1;
  return op == "TensorListGetItem" ? 0 : -1;
}

}  // namespace

bool NameElementShapes(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                       const TensorLists& lists, const tensorflow::grappler::GraphProperties& properties,
                       tensorflow::grappler::GrapplerItem* named) {
  const auto shape_of = [&](const TensorRef& tensor) -> const TensorShapeProto* {
    const std::string& name = item.graph.node(tensor.node).name();
    if (!properties.HasOutputProperties(name)) return nullptr;
    const auto& outputs = properties.GetOutputProperties(name);
    return tensor.port < static_cast<int>(outputs.size()) ? &outputs[tensor.port].shape() : nullptr;
  };
  // Per list: the shape of what is put in. Where two things of different shape are, none.
  std::map<int, TensorShapeProto> shapes;
  for (int i = 0; i < index.size(); ++i) {
    const std::string& op = item.graph.node(i).op();
    const size_t element = op == "TensorListPushBack" ? 1 : 2;
    if (lists.ListOf(i) < 0 || (op != "TensorListPushBack" && op != "TensorListSetItem")) continue;
    if (index[i].inputs.size() <= element) continue;
    const TensorShapeProto* shape = shape_of(index[i].inputs[element]);
    if (shape == nullptr || !Known(*shape)) continue;
    const auto [found, is_new] = shapes.emplace(lists.ListOf(i), *shape);
    if (!is_new && found->second.ShortDebugString() != shape->ShortDebugString()) found->second.set_unknown_rank(true);
  }
  std::vector<std::pair<int, const TensorShapeProto*>> open;
  for (int i = 0; i < index.size(); ++i) {
    const int output = ElementOutput(item.graph.node(i).op());
    if (output < 0 || index[i].inputs.empty()) continue;
    const TensorShapeProto* now = shape_of({i, output});
    const auto found = shapes.find(lists.ListOf(index[i].inputs[0].node));
    if (found == shapes.end() || !Known(found->second) || (now != nullptr && Known(*now))) continue;
    open.emplace_back(i, &found->second);
  }
  if (open.empty()) return false;
  *named = item;
  for (const auto& [node, shape] : open) {
    // The element becomes a placeholder of that shape, which the node hands on under its own name.
    tensorflow::NodeDef* element = named->graph.add_node();
    tensorflow::NodeDef* taken = named->graph.mutable_node(node);
    const tensorflow::DataType type = taken->attr().at("element_dtype").type();
    element->set_name("lms/shape/" + std::to_string(node));
    element->set_op("Placeholder");
    element->set_device(taken->device());
    (*element->mutable_attr())["dtype"].set_type(type);
    *(*element->mutable_attr())["shape"].mutable_shape() = *shape;
    const std::string list = taken->input(0);
    const bool pop = taken->op() == "TensorListPopBack";
    taken->set_op("IdentityN");
    taken->clear_attr();
    taken->clear_input();
    tensorflow::AttrValue::ListValue* types = (*taken->mutable_attr())["T"].mutable_list();
    if (pop) {
      taken->add_input(list);
      types->add_type(tensorflow::DT_VARIANT);
    }
    taken->add_input(element->name());
    types->add_type(type);
  }
  return true;
}

}  // namespace lms
