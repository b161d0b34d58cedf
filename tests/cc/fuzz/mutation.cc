#include "tests/cc/fuzz/mutation.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace lms::fuzz {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;

const std::vector<std::string>& OddNames() {
  static const auto* const names = new std::vector<std::string>{"",
                                                                "^",
                                                                "^x",
                                                                ":0",
                                                                "x:0",
                                                                "x:99999999999999999999",
                                                                "a b\tc",
                                                                std::string("zero\0byte", 9),
                                                                "\xff\xfe",
                                                                "lms/recompute_0/x",
                                                                "lms/swap_out_0/x",
                                                                "lms/",
                                                                "/",
                                                                "a/lms_value_0",
                                                                "a/lms_body/b",
                                                                "..",
                                                                "_SOURCE",
                                                                "_SINK",
                                                                std::string(5000, 'n')};
  return *names;
}

const std::vector<int64_t>& OddNumbers() {
  static const auto* const numbers = new std::vector<int64_t>{0,
                                                              1,
                                                              -1,
                                                              -2,
                                                              2,
                                                              3,
                                                              255,
                                                              100000,
                                                              INT32_MAX,
                                                              int64_t{INT32_MAX} + 1,
                                                              INT32_MIN,
                                                              int64_t{1} << 40,
                                                              int64_t{1} << 62,
                                                              INT64_MAX,
                                                              INT64_MIN};
  return *numbers;
}

}  // namespace

Mutation::Mutation(Random* random, FuzzCase* fuzz_case)
    : random(*random), fuzz_case(*fuzz_case), graph(fuzz_case->item.graph) {}

void Mutation::Note(const std::string& what) { fuzz_case.why += "; " + what; }

NodeDef* Mutation::Any() {
  return graph.node_size() == 0 ? nullptr : graph.mutable_node(random.Below(graph.node_size()));
}

NodeDef* Mutation::AnyWithInput() {
  for (int tries = 0; tries < 8; ++tries) {
    NodeDef* node = Any();
    if (node != nullptr && node->input_size() > 0) return node;
  }
  return nullptr;
}

NodeDef* Mutation::AnyOf(const std::set<std::string>& ops) {
  std::vector<int> found;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (ops.count(graph.node(i).op()) != 0) found.push_back(i);
  }
  return found.empty() ? nullptr : graph.mutable_node(found[random.Below(static_cast<int>(found.size()))]);
}

AttrValue* Mutation::AnyAttr(NodeDef** owner) {
  for (int tries = 0; tries < 8; ++tries) {
    NodeDef* node = Any();
    if (node == nullptr || node->attr().empty()) continue;
    if (owner != nullptr) *owner = node;
    int at = random.Below(node->attr_size());
    // By name: the order of a map is nobody's.
    std::set<std::string> names;
    for (const auto& attr : node->attr()) names.insert(attr.first);
    auto name = names.begin();
    while (at-- > 0) ++name;
    return &(*node->mutable_attr())[*name];
  }
  return nullptr;
}

int64_t Mutation::Number() { return OddNumbers()[random.Below(static_cast<int>(OddNumbers().size()))]; }

const std::string& Mutation::Name() { return OddNames()[random.Below(static_cast<int>(OddNames().size()))]; }

std::string* Mutation::AnyInput() {
  NodeDef* node = AnyWithInput();
  return node == nullptr ? nullptr : node->mutable_input(random.Below(node->input_size()));
}

AttrValue* Mutation::AnyAttrOf(AttrValue::ValueCase kind, NodeDef** owner) {
  for (int tries = 0; tries < 8; ++tries) {
    AttrValue* value = AnyAttr(owner);
    if (value == nullptr || value->value_case() == kind) return value;
  }
  return nullptr;
}

AttrValue& Mutation::Option(const std::string& name) { return (*fuzz_case.config.mutable_parameter_map())[name]; }

void Mutation::MakeOdd(AttrValue* value) {
  switch (random.Below(9)) {
    case 0:
      value->set_i(Number());
      break;
    case 1:
      value->set_s(Name());
      break;
    case 2:
      value->set_b(random.OneIn(2));
      break;
    case 3:
      value->set_f(1e30F);
      break;
    case 4:
      value->set_type(static_cast<tensorflow::DataType>(random.Below(140)));
      break;
    case 5:
      value->mutable_list();
      break;
    case 6:
      value->mutable_func()->set_name(random.OneIn(2) ? "squared" : "no_such_function");
      break;
    case 7:
      value->set_placeholder("T");
      break;
    default:
      value->clear_value();
  }
}

void Mutation::MakeOdd(tensorflow::TensorShapeProto* shape) {
  if (random.OneIn(4)) shape->clear_dim();
  if (random.OneIn(6)) shape->set_unknown_rank(true);
  const int dims = random.OneIn(10) ? 300 : 1 + random.Below(3);
  for (int k = 0; k < dims; ++k) {
    if (shape->dim_size() > 0 && random.OneIn(2)) {
      shape->mutable_dim(random.Below(shape->dim_size()))->set_size(Number());
    } else {
      shape->add_dim()->set_size(Number());
    }
  }
}

}  // namespace lms::fuzz
