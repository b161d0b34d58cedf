#include "cc/core/options/swap_options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

constexpr char kNotAccepted[] = "is not accepted";
constexpr char kNoBytes[] = "is not a positive number of bytes";
constexpr double kMostBandwidth = 1e15;  // bytes per second

std::string TakeBool(const OptionValue& value, bool* out) {
  const bool* b = std::get_if<bool>(&value);
  if (b == nullptr) return kNotAccepted;
  *out = *b;
  return "";
}

std::string TakeCount(const OptionValue& value, int least, int* out) {
  const int64_t* i = std::get_if<int64_t>(&value);
  if (i == nullptr || *i < least || *i > std::numeric_limits<int>::max()) return kNotAccepted;
  *out = static_cast<int>(*i);
  return "";
}

// 4 GiB as a number, or as text.
std::string TakeBytes(const OptionValue& value, int64_t least, int64_t* out) {
  std::optional<int64_t> bytes;
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    bytes = *i;
  } else if (const double* d = std::get_if<double>(&value)) {
    if (std::floor(*d) == *d && std::fabs(*d) < 9.2e18) bytes = static_cast<int64_t>(*d);
  } else if (const std::string* text = std::get_if<std::string>(&value)) {
    bytes = ParseBytes(*text);
    if (!bytes) return "is not a size";
  }
  if (!bytes) return kNotAccepted;
  if (*bytes < least) return least > 0 ? kNoBytes : "is below 0";
  *out = *bytes;
  return "";
}

// Bytes per second: 3e9, "3GB", "3 GB/s".
std::string TakeBandwidth(const OptionValue& value, double* out) {
  double rate = 0;
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    rate = static_cast<double>(*i);
  } else if (const double* d = std::get_if<double>(&value)) {
    rate = *d;
  } else if (const std::string* given = std::get_if<std::string>(&value)) {
    std::string text = *given;
    if (text.size() > 2 && text.compare(text.size() - 2, 2, "/s") == 0) text.resize(text.size() - 2);
    const std::optional<double> number = ParseNumber(text);
    const std::optional<int64_t> bytes = number ? std::nullopt : ParseBytes(text);
    if (!number && !bytes) return "is not a number of bytes per second";
    rate = number ? *number : static_cast<double>(*bytes);
  } else {
    return kNotAccepted;
  }
  if (!(rate >= 1 && rate <= kMostBandwidth)) return "is not a bandwidth from 1 to 1e15 bytes per second";
  *out = rate;
  return "";
}

std::string TakeTier(const OptionValue& value, std::string* out) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr || text->empty()) return kNotAccepted;
  if (*text != "host" && *text != "disk") {
    if (text->front() == '~') return "begins with '~', which is not expanded";
    if (text->find('\0') != std::string::npos) return kNotAccepted;
    if (text->find('/') == std::string::npos) {
      return "is no tier (a directory has a slash in its path: './" + *text + "')";
    }
  }
  *out = *text;
  return "";
}

std::string TakeSync(const OptionValue& value, SwapRules* rules) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr || (*text != "none" && *text != "out" && *text != "in" && *text != "both")) return kNotAccepted;
  rules->wait_for_out = *text == "out" || *text == "both";
  rules->wait_for_in = *text == "in" || *text == "both";
  return "";
}

// `marks`: the characters that names may have beside letters and digits.
std::string TakeNames(const OptionValue& value, const std::string& marks, std::string* out) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return kNotAccepted;
  const std::vector<std::string> names = SplitNames(*text);
  if (names.empty()) return "names nothing";
  std::string joined;
  for (const std::string& name : names) {
    for (const char c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!plain && marks.find(c) == std::string::npos) return "has '" + name + "', which is no name TensorFlow gives";
    }
    joined += (joined.empty() ? "" : ",") + name;
  }
  *out = joined;
  return "";
}

}  // namespace

const std::vector<OptionSpec>& SwapOptionSpecs() {
  static const char* const bytes = "a positive number of bytes, or a size such as '8GiB'";
  static const char* const bandwidth = "bytes per second from 1 to 1e15: a number such as 3e9, or a text such as '3GB'";
  static const char* const scopes = "names of scopes such as 'block1/conv', in a list or comma-separated";
  static const char* const types = "types of operations such as 'Conv2D', in a list or comma-separated";
  static const auto* const specs = new std::vector<OptionSpec>{
      {"serialize_bytes", "str or int", "not given",
       "a number of bytes that is not negative, or a size such as '1GiB'"},
      {"swap", "bool", "True", "True, False or lms.SwapOptions"},
      {"swap_disk_limit", "str or int", "not given", bytes},
      {"swap_exclude", "list of str or str", "not given", scopes},
      {"swap_exclude_ops", "list of str or str", "not given", types},
      {"swap_group", "int", "0", "a whole number of operations that is not negative"},
      {"swap_host_limit", "str or int", "not given", bytes},
      {"swap_in_ahead", "int", "-1", "a whole number of operations that is not negative, or -1 to begin by time"},
      {"swap_in_bandwidth", "str or float", "not given", bandwidth},
      {"swap_include", "list of str or str", "not given", scopes},
      {"swap_include_ops", "list of str or str", "not given", types},
      {"swap_least_gap", "int", "0", "a whole number of operations that is not negative"},
      {"swap_out_bandwidth", "str or float", "not given", bandwidth},
      {"swap_sync", "str", "'none'", "'none', 'out', 'in' or 'both'"},
      {"swap_tensors", "int", "-1", "a whole number that is not negative, or -1 for any number"},
      {"swap_to", "str", "'host'",
       "'host', 'disk', or the path of a directory with a slash in it ('~' is not expanded)"},
  };
  return *specs;
}

std::optional<std::string> ParseSwapOption(const std::string& name, const OptionValue& value, Options* options) {
  // In names of nodes: what the names of scopes and ops may have, and that of the generated ones.
  static const char scope_marks[] = "_.\\-/>";
  static const char type_marks[] = "_>";
  if (name == "swap") return TakeBool(value, &options->swap);
  if (name == "swap_to") return TakeTier(value, &options->swap_to);
  if (name == "swap_host_limit") return TakeBytes(value, 1, &options->swap_host_limit);
  if (name == "swap_disk_limit") return TakeBytes(value, 1, &options->swap_disk_limit);
  if (name == "swap_out_bandwidth") return TakeBandwidth(value, &options->swap_out_bandwidth);
  if (name == "swap_in_bandwidth") return TakeBandwidth(value, &options->swap_in_bandwidth);
  if (name == "swap_tensors") return TakeCount(value, -1, &options->swap_rules.most_tensors);
  if (name == "swap_least_gap") return TakeCount(value, 0, &options->swap_rules.least_gap);
  if (name == "swap_in_ahead") return TakeCount(value, -1, &options->swap_rules.ahead);
  if (name == "swap_group") return TakeCount(value, 0, &options->swap_rules.group);
  if (name == "swap_sync") return TakeSync(value, &options->swap_rules);
  if (name == "swap_include") return TakeNames(value, scope_marks, &options->swap_include);
  if (name == "swap_exclude") return TakeNames(value, scope_marks, &options->swap_exclude);
  if (name == "swap_include_ops") return TakeNames(value, type_marks, &options->swap_include_ops);
  if (name == "swap_exclude_ops") return TakeNames(value, type_marks, &options->swap_exclude_ops);
  if (name == "serialize_bytes") return TakeBytes(value, 0, &options->serialize_bytes);
  return std::nullopt;
}

std::vector<std::string> SwapContradictions(const OptionMap& map, const Options& options) {
  std::vector<std::string> problems;
  if (!options.swap) {
    std::string idle;
    for (const auto& [name, value] : map) {
      // Where to swap to may be a setting of the machine's.
      if (name.rfind("swap_", 0) == 0 && name != "swap_to") idle += (idle.empty() ? "" : ", ") + name;
    }
    if (!idle.empty()) problems.push_back(idle + " with swap=False: leave it out, or set swap=True");
  }
  if (options.swap_disk_limit > 0 && options.swap_to == "host") {
    problems.push_back(
        "swap_disk_limit with swap_to='host', which writes no file: set swap_to='disk' or to a directory, or limit it "
        "by swap_host_limit");
  }
  if (options.swap_rules.wait_for_in && options.swap_rules.ahead >= 0) {
    problems.push_back(
        "swap_in_ahead with a swap_sync of 'in' or 'both', which begins no swap-in ahead: leave one of them out");
  }
  for (const std::string& kept : SplitNames(options.swap_exclude)) {
    for (const std::string& wanted : SplitNames(options.swap_include)) {
      if (!InScope(wanted, kept)) continue;
      problems.push_back("swap_exclude='" + kept + "' takes back all of swap_include='" + wanted +
                         "': leave one of them out");
    }
  }
  const std::vector<std::string> types = SplitNames(options.swap_exclude_ops);
  for (const std::string& wanted : SplitNames(options.swap_include_ops)) {
    if (std::find(types.begin(), types.end(), wanted) == types.end()) continue;
    problems.push_back("swap_include_ops and swap_exclude_ops both name '" + wanted + "': leave one of them out");
  }
  if (options.serialize_bytes > 0 && !options.reorder) {
    problems.push_back("serialize_bytes with reorder=False, which leaves all order as it is: set reorder=True");
  }
  return problems;
}

std::vector<std::string> SplitNames(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    size_t first = begin;
    size_t last = end;
    const auto blank = [&](size_t at) { return list[at] == ' ' || list[at] == '\t' || list[at] == '\n'; };
    while (first < last && blank(first)) ++first;
    while (first < last && blank(last - 1)) --last;
    while (first < last && list[last - 1] == '/') --last;
    if (first < last) names.push_back(list.substr(first, last - first));
    begin = end + 1;
  }
  return names;
}

bool InScope(const std::string& name, const std::string& scope) {
  for (size_t at = name.find(scope); at != std::string::npos; at = name.find(scope, at + 1)) {
    const size_t end = at + scope.size();
    if ((at == 0 || name[at - 1] == '/') && (end == name.size() || name[end] == '/')) return true;
  }
  return false;
}

}  // namespace lms
