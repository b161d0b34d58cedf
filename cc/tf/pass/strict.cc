#include "cc/tf/pass/strict.h"

#include "cc/core/graph/node_names.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

std::string HostOf(const std::string& device) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  if (!tensorflow::DeviceNameUtils::ParseFullName(device, &parsed)) return "";
  parsed.type = "CPU";
  parsed.has_type = true;
  parsed.id = 0;
  parsed.has_id = true;
  return tensorflow::DeviceNameUtils::ParsedNameToString(parsed);
}

tensorflow::NodeDef* AddConst(const std::string& name, const std::string& device, tensorflow::DataType type,
                              tensorflow::GraphDef* graph) {
  tensorflow::NodeDef* node = graph->add_node();
  node->set_name(StrictName(name));
  node->set_op("Const");
  node->set_device(device);
  (*node->mutable_attr())["dtype"].set_type(type);
  tensorflow::TensorProto* value = (*node->mutable_attr())["value"].mutable_tensor();
  value->set_dtype(type);
  value->mutable_tensor_shape();
  return node;
}

}  // namespace

void FailStep(const GraphIndex& index, const std::string& device, const std::string& message,
              tensorflow::GraphDef* graph) {
  const std::string host = HostOf(device);
  (*AddConst("condition", host, tensorflow::DT_BOOL, graph)->mutable_attr())["value"].mutable_tensor()->add_bool_val(
      false);
  (*AddConst("message", host, tensorflow::DT_STRING, graph)->mutable_attr())["value"].mutable_tensor()->add_string_val(
      message);
  tensorflow::NodeDef* fail = graph->add_node();
  fail->set_name(StrictName("budget_not_met"));
  fail->set_op("Assert");
  fail->set_device(host);
  fail->add_input(StrictName("condition"));
  fail->add_input(StrictName("message"));
  (*fail->mutable_attr())["T"].mutable_list()->add_type(tensorflow::DT_STRING);
  (*fail->mutable_attr())["summarize"].set_i(3);
  const std::string control = "^" + fail->name();
  for (int i = 0; i < index.size(); ++i) {
    tensorflow::NodeDef* node = graph->mutable_node(i);
    // Loops are held back by what enters them.
    if (index[i].in_frame || node->op() == "_Arg" || node->op() == "Const" || node->op() == "Placeholder") continue;
    node->add_input(control);
  }
}

}  // namespace lms
