#include "cc/core/options/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/options/recorded_sizes.h"
#include "cc/core/options/swap_options.h"

namespace lms {
namespace {

std::string Show(const OptionValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", *d);
    return text;
  }
  return "'" + std::get<std::string>(value) + "'";
}

// Why the budget could not be read; nothing when it could.
std::optional<std::string> ParseBudget(const OptionValue& value, Budget* budget) {
  if (std::holds_alternative<bool>(value)) return "is a truth value";
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    if (*i <= 0) return "is not a positive number of bytes";
    budget->kind = Budget::Kind::kBytes;
    budget->bytes = *i;
    return std::nullopt;
  }
  if (const double* d = std::get_if<double>(&value)) {
    if (*d < 1 || *d >= 9.2e18 || std::floor(*d) != *d) return "is not a whole, positive number of bytes";
    budget->kind = Budget::Kind::kBytes;
    budget->bytes = static_cast<int64_t>(*d);
    return std::nullopt;
  }
  const std::string& text = std::get<std::string>(value);
  if (text == "auto") {
    budget->kind = Budget::Kind::kAuto;
    return std::nullopt;
  }
  if (text == "min") {
    budget->kind = Budget::Kind::kMin;
    return std::nullopt;
  }
  if (!text.empty() && text.back() == '%') {
    const std::optional<double> percent = ParseNumber(text.substr(0, text.size() - 1));
    if (!percent || *percent <= 0 || *percent > 100) return "is not a percentage above 0 and up to 100";
    budget->kind = Budget::Kind::kPercent;
    budget->percent = *percent;
    return std::nullopt;
  }
  const std::optional<int64_t> bytes = ParseBytes(text);
  if (!bytes) return "is not a memory size";
  if (*bytes <= 0) return "is not a positive number of bytes";
  budget->kind = Budget::Kind::kBytes;
  budget->bytes = *bytes;
  return std::nullopt;
}

std::string WithoutSpaces(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// "GPU:1", "CPU": upper case, as TensorFlow has it, with a number or without.
bool NamesDevice(const std::string& name) {
  const size_t colon = std::min(name.find(':'), name.size());
  const auto upper = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (colon == 0 || !std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon), upper)) return false;
  if (colon == name.size()) return true;
  return colon + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(colon) + 1, name.end(), digit);
}

// Reads "GPU:0=6GiB, CPU=60%, =min": a device and its budget; without a device, that of all others. Returns why it
// cannot, or nothing.
std::optional<std::string> ParseDeviceBudgets(const std::string& text, Options* options) {
  bool others = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) return "has an entry without a device: '" + WithoutSpaces(entry) + "'";
    const std::string device = WithoutSpaces(entry.substr(0, equals));
    if (!device.empty() && !NamesDevice(device)) return "names '" + device + "', which is no device such as 'GPU:0'";
    Budget budget;
    const std::optional<std::string> problem = ParseBudget(WithoutSpaces(entry.substr(equals + 1)), &budget);
    if (problem) return "has a budget for '" + device + "' that " + *problem;
    const auto same = [&device](const DeviceBudget& other) { return other.device == device; };
    std::vector<DeviceBudget>& named = options->device_budgets;
    if (device.empty() ? others : std::any_of(named.begin(), named.end(), same)) {
      return "names '" + device + "' twice";
    }
    if (device.empty()) {
      options->memory_budget = budget;
      others = true;
    } else {
      named.push_back({device, budget});
    }
  }
  return std::nullopt;
}

std::optional<std::string> ParseBudgets(const OptionValue& value, Options* options) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text != nullptr && text->find('=') != std::string::npos) return ParseDeviceBudgets(*text, options);
  return ParseBudget(value, &options->memory_budget);
}

bool AnyIsLeast(const Options& options) {
  return options.memory_budget.kind == Budget::Kind::kMin ||
         std::any_of(options.device_budgets.begin(), options.device_budgets.end(),
                     [](const DeviceBudget& own) { return own.budget.kind == Budget::Kind::kMin; });
}

bool AsBool(const OptionValue& value, bool* out) {
  const bool* b = std::get_if<bool>(&value);
  if (b != nullptr) *out = *b;
  return b != nullptr;
}

// Why the sizes could not be read; nothing when they could.
std::optional<std::string> ParseDims(const OptionValue& value, UnknownDim* out) {
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    if (*i < 1) return "is not accepted";
    *out = {*i, {}};
    return std::nullopt;
  }
  const std::string* text = std::get_if<std::string>(&value);
  return text == nullptr ? "is not accepted" : ParseUnknownDim(*text, out);
}

bool AsSeenSizes(const OptionValue& value, std::vector<SeenSize>* out) {
  const std::string* text = std::get_if<std::string>(&value);
  return text != nullptr && ParseSeenSizes(*text, out);
}

bool AsSeenValues(const OptionValue& value, std::vector<SeenValue>* out) {
  const std::string* text = std::get_if<std::string>(&value);
  return text != nullptr && ParseSeenValues(*text, out);
}

bool AsRecorded(const OptionValue& value, RecordedShapes* out) {
  const std::string* text = std::get_if<std::string>(&value);
  return text != nullptr && ParseRecordedSizes(*text, out);
}

bool AsDouble(const OptionValue& value, double least, double below, double* out) {
  double number = 0;
  if (const double* d = std::get_if<double>(&value)) {
    number = *d;
  } else if (const int64_t* i = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*i);
  } else {
    return false;
  }
  if (!std::isfinite(number) || number < least || number >= below) return false;
  *out = number;
  return true;
}

bool AsDirectory(const OptionValue& value, std::string* out) {
  const std::string* path = std::get_if<std::string>(&value);
  if (path == nullptr || path->empty() || path->front() == '~' || path->find('\0') != std::string::npos) return false;
  *out = *path;
  return true;
}

// True, "auto" and nothing: the device's own. False and "none": none.
bool AsProfile(const OptionValue& value, std::string* out) {
  if (const bool* b = std::get_if<bool>(&value)) {
    *out = *b ? "" : "none";
    return true;
  }
  if (!AsDirectory(value, out)) return false;
  if (*out == "auto") out->clear();
  return true;
}

// "1.25|step 2 took ...".
bool AsFeedback(const OptionValue& value, Options* options) {
  const std::string* text = std::get_if<std::string>(&value);
  const size_t bar = text == nullptr ? std::string::npos : text->find('|');
  if (bar == std::string::npos) return false;
  const std::optional<double> excess = ParseNumber(text->substr(0, bar));
  if (!excess || *excess < 1 || *excess > 1e6) return false;
  options->observed_excess = *excess;
  options->planned_again = text->substr(bar + 1);
  return true;
}

int EditDistance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::vector<OptionSpec> AllSpecs() {
  std::vector<OptionSpec> specs = {
      {"dump_graphs", "str", "not given",
       "the path of a directory, which is made where it is missing ('~' is not expanded)"},
      {"memory_budget", "str, int or dict", "'auto'",
       "'auto', 'min', a positive number of bytes, a size such as '6GiB' or '500 MB', a percentage such as '60%', or "
       "one of these for each device: {'GPU:0': '6GiB', 'GPU:1': '10GiB'} or 'GPU:0=6GiB, GPU:1=10GiB' ('GPU' is all "
       "of that type, '' is all others)"},
      {"on_oom", "str", "'raise'", "'raise' or 'replan'"},
      {"planner_seconds", "float", "1.0", "a number of seconds above 0 and below 3600"},
      {"profile", "bool or str", "'auto'",
       "'auto', 'none', or the path of a file that lms.calibrate() wrote ('~' is not expanded)"},
      {"recompute", "bool", "True", "True or False"},
      {"reorder", "bool", "True", "True or False"},
      {"place", "bool", "True", "True or False"},
      {"replan", "bool", "True", "True or False"},
      {"safety_margin", "float", "0.05", "a share from 0 to below 1, for example 0.05"},
      {"strict", "bool", "False", "True or False"},
      {"unknown_dim", "int, dict or str", "not given",
       "a positive whole number, or one for each argument and dimension: {'images': 64, 'tokens:1': 128} or "
       "'images=64, tokens:1=128' (the dimension is 0 where it is left out, '' is all others)"},
  };
  specs.insert(specs.end(), SwapOptionSpecs().begin(), SwapOptionSpecs().end());
  std::sort(specs.begin(), specs.end(), [](const OptionSpec& a, const OptionSpec& b) { return a.name < b.name; });
  return specs;
}

// What an option is called today that had another name before.
std::string NameToday(const std::string& name) {
  for (const RenamedOption& renamed : RenamedOptions()) {
    if (name == renamed.before) return renamed.name;
  }
  return name;
}

std::string UnknownOption(const std::string& name) {
  std::string names;
  std::string nearest;
  int least = 4;  // further away than this is no misspelling
  for (const OptionSpec& spec : OptionSpecs()) {
    names += (names.empty() ? "" : ", ") + spec.name;
    const int distance = EditDistance(name, spec.name);
    if (distance < least) {
      least = distance;
      nearest = spec.name;
    }
  }
  std::string text = "unknown option '" + name + "'";
  if (!nearest.empty()) text += " (did you mean '" + nearest + "'?)";
  return text + "; the options are " + names;
}

}  // namespace

std::string Budget::ToString() const {
  switch (kind) {
    case Kind::kAuto:
      return "auto";
    case Kind::kMin:
      return "min";
    case Kind::kBytes:
      return FormatBytes(bytes);
    case Kind::kPercent: {
      char text[32];
      std::snprintf(text, sizeof(text), "%g%%", percent);
      return text;
    }
  }
  return "auto";
}

const Budget& BudgetOf(const Options& options, const std::string& device) {
  // "/job:worker/replica:0/task:1/device:GPU:0", or "GPU:0" alone.
  const size_t at = device.rfind("/device:");
  const std::string name = at == std::string::npos ? device : device.substr(at + 8);
  const std::string type = name.substr(0, name.find(':'));
  const Budget* of_type = nullptr;
  for (const DeviceBudget& own : options.device_budgets) {
    if (own.device == name) return own.budget;
    if (own.device == type) of_type = &own.budget;
  }
  return of_type == nullptr ? options.memory_budget : *of_type;
}

const std::vector<OptionSpec>& OptionSpecs() {
  static const auto* const specs = new std::vector<OptionSpec>(AllSpecs());
  return *specs;
}

const std::vector<RenamedOption>& RenamedOptions() {
  static const auto* const renamed = new std::vector<RenamedOption>{{"feedback", "replan"}, {"schedule", "reorder"}};
  return *renamed;
}

std::vector<std::string> ParseOptions(const OptionMap& map, Options* options, bool internal) {
  std::vector<std::string> problems;
  Options parsed;
  for (const auto& [given, value] : map) {
    const std::string name = NameToday(given);
    std::string why = "is not accepted";
    bool good = true;
    if (name == "memory_budget") {
      const std::optional<std::string> problem = ParseBudgets(value, &parsed);
      good = !problem;
      if (problem) why = *problem;
    } else if (name == "recompute") {
      good = AsBool(value, &parsed.recompute);
    } else if (name == "reorder") {
      good = AsBool(value, &parsed.reorder);
    } else if (name == "place") {
      good = AsBool(value, &parsed.place);
    } else if (name == "dump_graphs") {
      good = AsDirectory(value, &parsed.dump_graphs);
    } else if (name == "profile") {
      good = AsProfile(value, &parsed.profile);
    } else if (name == "time_ops" && std::holds_alternative<std::string>(value)) {
      parsed.time_ops = std::get<std::string>(value);
    } else if (name == "on_oom") {  // the package acts on it, where the error is raised
      const std::string* text = std::get_if<std::string>(&value);
      good = text != nullptr && (*text == "raise" || *text == "replan");
    } else if (name == "replan") {
      good = AsBool(value, &parsed.replan);
    } else if (name == "strict") {
      good = AsBool(value, &parsed.strict);
    } else if (name == "unknown_dim") {
      const std::optional<std::string> problem = ParseDims(value, &parsed.unknown_dim);
      good = !problem;
      if (problem) why = *problem;
    } else if (name == "planner_seconds") {
      good = AsDouble(value, 1e-6, 3600, &parsed.planner_seconds);
    } else if (name == "safety_margin") {
      good = AsDouble(value, 0, 1, &parsed.safety_margin);
    } else if (internal && name == "_seen_sizes") {
      if (!AsSeenSizes(value, &parsed.seen_sizes)) problems.push_back(name + "=" + Show(value) + " " + why);
      continue;
    } else if (internal && name == "_seen_values") {
      if (!AsSeenValues(value, &parsed.seen_values)) problems.push_back(name + "=" + Show(value) + " " + why);
      continue;
    } else if (internal && name == "_data_may_end") {
      parsed.data_may_end = true;
      continue;
    } else if (internal && name == "_pool" && std::holds_alternative<int64_t>(value)) {
      parsed.pool_bytes = std::get<int64_t>(value);
      continue;
    } else if (internal && name == "_pool_exact") {
      parsed.pool_exact = true;
      continue;
    } else if (internal && name == "_record_sizes") {
      parsed.record_sizes = true;
      continue;
    } else if (internal && name == "_recorded") {
      if (!AsRecorded(value, &parsed.recorded)) problems.push_back(name + "=" + Show(value) + " " + why);
      continue;
    } else if (internal && name == "_feedback") {
      if (!AsFeedback(value, &parsed)) problems.push_back(name + "=" + Show(value) + " " + why);
      continue;
    } else if (internal && name == "_hints" && std::holds_alternative<std::string>(value)) {
      parsed.hints = std::get<std::string>(value);
      continue;
    } else {
      const std::optional<std::string> problem = ParseSwapOption(name, value, &parsed);
      if (!problem) {
        problems.push_back(UnknownOption(name));
        continue;
      }
      good = problem->empty();
      why = *problem;
    }
    if (good) continue;
    for (const OptionSpec& spec : OptionSpecs()) {
      if (spec.name == name) problems.push_back(name + "=" + Show(value) + " " + why + "; accepted: " + spec.accepted);
    }
  }
  if (AnyIsLeast(parsed) && !parsed.recompute && !parsed.reorder && !parsed.swap) {
    problems.push_back(
        "memory_budget='min' with recompute=False, reorder=False and swap=False leaves nothing to lower the peak "
        "with; accepted: recompute=True, reorder=True, swap=True, or another budget");
  }
  const std::vector<std::string> contradictions = SwapContradictions(map, parsed);
  problems.insert(problems.end(), contradictions.begin(), contradictions.end());
  if (problems.empty()) *options = std::move(parsed);
  return problems;
}

}  // namespace lms
