#include "tests/cc/fuzz/fuzz_case.h"

#include <cstdlib>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "google/protobuf/text_format.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace lms::fuzz {
namespace {

void Line(const std::string& key, const std::string& value, std::string* text) {
  *text += "# " + key + ": " + absl::CEscape(value) + "\n";
}

std::string OptionText(const std::string& name, const tensorflow::AttrValue& value) {
  switch (value.value_case()) {
    case tensorflow::AttrValue::kS:
      return name + " s " + value.s();
    case tensorflow::AttrValue::kI:
      return name + " i " + std::to_string(value.i());
    case tensorflow::AttrValue::kF:
      return name + " f " + std::to_string(value.f());
    case tensorflow::AttrValue::kB:
      return name + " b " + (value.b() ? "1" : "0");
    default:
      return name + " other";
  }
}

bool ReadOption(const std::string& text, FuzzCase* fuzz_case) {
  const size_t space = text.find(' ');
  if (space == std::string::npos || space + 1 >= text.size()) return false;
  tensorflow::AttrValue& value = (*fuzz_case->config.mutable_parameter_map())[text.substr(0, space)];
  const std::string rest = text.size() > space + 3 ? text.substr(space + 3) : "";
  switch (text[space + 1]) {
    case 's':
      value.set_s(rest);
      return true;
    case 'i':
      value.set_i(std::strtoll(rest.c_str(), nullptr, 10));
      return true;
    case 'f':
      value.set_f(std::strtof(rest.c_str(), nullptr));
      return true;
    case 'b':
      value.set_b(rest == "1");
      return true;
    default:
      value.mutable_list();
      return true;
  }
}

bool ReadLine(const std::string& key, const std::string& value, FuzzCase* fuzz_case) {
  if (key == "why") {
    fuzz_case->why = value;
  } else if (key == "fetch") {
    fuzz_case->item.fetch.push_back(value);
  } else if (key == "feed") {
    fuzz_case->item.feed.emplace_back(value, tensorflow::Tensor());
  } else if (key == "keep") {
    fuzz_case->item.keep_ops.push_back(value);
  } else if (key == "cluster") {
    fuzz_case->cluster = value;
  } else if (key == "threads") {
    fuzz_case->threads = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
  } else if (key == "valid") {
    fuzz_case->valid = value == "1";
  } else if (key == "runnable") {
    fuzz_case->runnable = value == "1";
  } else if (key == "option") {
    return ReadOption(value, fuzz_case);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string ToText(const FuzzCase& fuzz_case) {
  std::string text;
  Line("why", fuzz_case.why, &text);
  for (const std::string& fetch : fuzz_case.item.fetch) Line("fetch", fetch, &text);
  for (const auto& feed : fuzz_case.item.feed) Line("feed", feed.first, &text);
  for (const std::string& keep : fuzz_case.item.keep_ops) Line("keep", keep, &text);
  std::set<std::string> options;  // the map has them in any order
  for (const auto& [name, value] : fuzz_case.config.parameter_map()) options.insert(OptionText(name, value));
  for (const std::string& option : options) Line("option", option, &text);
  Line("cluster", fuzz_case.cluster, &text);
  Line("threads", std::to_string(fuzz_case.threads), &text);
  Line("valid", fuzz_case.valid ? "1" : "0", &text);
  Line("runnable", fuzz_case.runnable ? "1" : "0", &text);
  std::string graph;
  google::protobuf::TextFormat::PrintToString(fuzz_case.item.graph, &graph);
  return text + graph;
}

bool FromText(const std::string& text, FuzzCase* fuzz_case, std::string* problem) {
  *fuzz_case = FuzzCase();
  fuzz_case->item.id = "step";
  fuzz_case->item.optimization_options().allow_pruning_stateful_and_dataset_ops = false;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("# ", 0) != 0) continue;
    const size_t colon = line.find(": ");
    std::string value;
    if (colon == std::string::npos || !absl::CUnescape(line.substr(colon + 2), &value) ||
        !ReadLine(line.substr(2, colon - 2), value, fuzz_case)) {
      *problem = "this line says nothing: " + line;
      return false;
    }
  }
  if (google::protobuf::TextFormat::ParseFromString(text, &fuzz_case->item.graph)) return true;
  *problem = "the graph is no text proto";
  return false;
}

}  // namespace lms::fuzz
