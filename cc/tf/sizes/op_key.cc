#include "cc/tf/sizes/op_key.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

using tensorflow::OpInfo;

bool Matters(const std::string& name, const tensorflow::AttrValue& value) {
  static const auto* const unimportant =
      new std::set<std::string>{"shared_name", "container", "seed", "seed2", "value"};
  if (name.empty() || name.front() == '_' || unimportant->count(name) != 0) return false;
  switch (value.value_case()) {
    case tensorflow::AttrValue::kTensor:
    case tensorflow::AttrValue::kFunc:
    case tensorflow::AttrValue::kPlaceholder:
      return false;
    case tensorflow::AttrValue::kList:
      return value.list().tensor_size() == 0 && value.list().func_size() == 0;
    default:
      return true;
  }
}

// FNV-1a: the same on every machine and in every build.
class Hash {
 public:
  void Add(const std::string& text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0);
  }
  std::string Text() const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(state_));
    return text;
  }

 private:
  void AddByte(unsigned char byte) { state_ = (state_ ^ byte) * 1099511628211ULL; }
  uint64_t state_ = 14695981039346656037ULL;
};

std::string HashOfAttrs(const tensorflow::NodeDef& node) {
  std::map<std::string, std::string> attrs;  // sorted
  for (const auto& [name, value] : node.attr()) {
    if (Matters(name, value)) attrs[name] = value.SerializeAsString();
  }
  Hash hash;
  for (const auto& [name, value] : attrs) {
    hash.Add(name);
    hash.Add(std::to_string(value.size()));
    hash.Add(value);
  }
  return hash.Text();
}

std::string TensorText(const OpInfo::TensorProperties& tensor) {
  std::string text = tensorflow::DataTypeString(tensor.dtype());
  if (tensor.shape().unknown_rank()) return text + "[?]";
  text += '[';
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const int64_t size = tensor.shape().dim(i).size();
    text += (i == 0 ? "" : ",") + (size < 0 ? "?" : std::to_string(size));
  }
  return text + "]";
}

std::string TensorsText(const std::vector<OpInfo::TensorProperties>& tensors) {
  std::string text;
  for (const auto& tensor : tensors) text += (text.empty() ? "" : ",") + TensorText(tensor);
  return text;
}

}  // namespace

std::string OpKey(const tensorflow::NodeDef& node, const std::vector<OpInfo::TensorProperties>& inputs,
                  const std::vector<OpInfo::TensorProperties>& outputs) {
  return node.op() + "(" + TensorsText(inputs) + ")->" + TensorsText(outputs) + " " + HashOfAttrs(node);
}

}  // namespace lms
