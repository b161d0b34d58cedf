#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tests/cc/fuzz/mutation.h"

namespace lms::fuzz {

using tensorflow::AttrValue;
using tensorflow::NodeDef;

bool DropAttr(Mutation* mutation) {
  NodeDef* node = nullptr;
  if (mutation->AnyAttr(&node) == nullptr) return false;
  std::set<std::string> names;
  for (const auto& attr : node->attr()) names.insert(attr.first);
  auto name = names.begin();
  for (int at = mutation->random.Below(static_cast<int>(names.size())); at > 0; --at) ++name;
  mutation->Note("attribute " + *name + " of " + node->name() + " dropped");
  node->mutable_attr()->erase(*name);
  return true;
}

bool OddAttr(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttr(&node);
  if (value == nullptr) return false;
  mutation->MakeOdd(value);
  mutation->Note("odd attribute of " + node->name());
  return true;
}

bool OddListElement(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttr(&node);
  if (value == nullptr || !value->has_list()) return false;
  auto* list = value->mutable_list();
  if (list->type_size() > 0) list->set_type(0, static_cast<tensorflow::DataType>(mutation->random.Below(140)));
  if (list->i_size() > 0) list->set_i(mutation->random.Below(list->i_size()), mutation->Number());
  if (list->shape_size() > 0) list->mutable_shape(0)->add_dim()->set_size(mutation->Number());
  mutation->Note("odd element in a list of " + node->name());
  return true;
}

bool AttrOfOther(Mutation* mutation) {
  NodeDef* a = nullptr;
  NodeDef* b = nullptr;
  AttrValue* from = mutation->AnyAttr(&a);
  AttrValue* to = mutation->AnyAttr(&b);
  if (from == nullptr || to == nullptr) return false;
  const AttrValue copy = *from;
  *to = copy;
  mutation->Note("attribute of " + a->name() + " in " + b->name());
  return true;
}

bool OddType(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  for (const char* name : {"T", "dtype", "Tidx", "SrcT", "element_dtype"}) {
    if (node->attr().count(name) == 0) continue;
    static const auto* const types = new std::vector<tensorflow::DataType>{
        tensorflow::DT_INVALID, tensorflow::DT_STRING, tensorflow::DT_RESOURCE,  tensorflow::DT_VARIANT,
        tensorflow::DT_INT4,    tensorflow::DT_BOOL,   tensorflow::DT_COMPLEX64, tensorflow::DT_FLOAT_REF,
        tensorflow::DT_INT64,   tensorflow::DT_QINT8};
    (*node->mutable_attr())[name].set_type((*types)[mutation->random.Below(static_cast<int>(types->size()))]);
    mutation->Note("type of " + node->name());
    return true;
  }
  return false;
}

bool OddShape(Mutation* mutation) {
  NodeDef* node = mutation->AnyOf({"Placeholder", "VarHandleOp", "_Arg", "TemporaryVariable", "Const"});
  if (node == nullptr) return false;
  for (const char* name : {"shape", "_output_shapes", "value", "_handle_shapes"}) {
    const auto found = node->mutable_attr()->find(name);
    if (found == node->mutable_attr()->end()) continue;
    AttrValue& value = found->second;
    if (value.has_tensor()) {
      mutation->MakeOdd(value.mutable_tensor()->mutable_tensor_shape());
    } else if (value.has_list()) {
      if (value.list().shape_size() == 0 || mutation->random.OneIn(4)) value.mutable_list()->add_shape();
      mutation->MakeOdd(value.mutable_list()->mutable_shape(mutation->random.Below(value.list().shape_size())));
    } else {
      mutation->MakeOdd(value.mutable_shape());
    }
    mutation->Note("shape of " + node->name());
    return true;
  }
  return false;
}

bool OddNumber(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttrOf(AttrValue::kI, &node);
  if (value == nullptr) return false;
  value->set_i(mutation->Number());
  mutation->Note("number of " + node->name());
  return true;
}

bool OddString(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttrOf(AttrValue::kS, &node);
  if (value == nullptr) return false;
  value->set_s(mutation->Name());
  mutation->Note("string of " + node->name());
  return true;
}

bool OddList(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttrOf(AttrValue::kList, &node);
  if (value == nullptr) return false;
  auto* list = value->mutable_list();
  const int times = mutation->random.OneIn(10) ? 2000 : 1;
  for (int k = 0; k < times; ++k) {
    if (list->type_size() > 0) list->add_type(tensorflow::DT_FLOAT);
    if (list->i_size() > 0) list->add_i(mutation->Number());
    if (list->shape_size() > 0) list->add_shape();
  }
  mutation->Note("list of " + node->name() + " longer");
  return true;
}

bool EmptyList(Mutation* mutation) {
  NodeDef* node = nullptr;
  AttrValue* value = mutation->AnyAttrOf(AttrValue::kList, &node);
  if (value == nullptr) return false;
  value->clear_list();
  value->mutable_list();
  mutation->Note("list of " + node->name() + " empty");
  return true;
}

bool CorruptTensor(Mutation* mutation) {
  NodeDef* node = mutation->AnyOf({"Const"});
  if (node == nullptr) return false;
  auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
  switch (mutation->random.Below(7)) {
    case 0:
      tensor->set_tensor_content("abc");
      break;
    case 1:
      tensor->set_dtype(static_cast<tensorflow::DataType>(mutation->random.Below(140)));
      break;
    case 2:
      mutation->MakeOdd(tensor->mutable_tensor_shape());
      break;
    case 3:
      tensor->clear_int_val();
      tensor->clear_float_val();
      break;
    case 4:
      for (int k = 0; k < 100; ++k) tensor->add_int_val(k);
      break;
    case 5:
      tensor->add_int_val(static_cast<int>(mutation->Number()));
      if (tensor->int_val_size() > 1) tensor->set_int_val(0, static_cast<int>(mutation->Number()));
      break;
    default:
      tensor->Clear();
  }
  mutation->Note("tensor of " + node->name());
  return true;
}

}  // namespace lms::fuzz
