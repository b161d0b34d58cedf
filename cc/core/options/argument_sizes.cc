#include "cc/core/options/argument_sizes.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace lms {
namespace {

constexpr int kMostDims = 254;  // as many as TensorFlow's shapes may have

// The whole text as a number that is not negative; nothing where it is anything else.
std::optional<int64_t> WholeNumber(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

std::optional<int> SmallNumber(std::string_view text, int most) {
  const std::optional<int64_t> number = WholeNumber(text);
  if (!number || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

std::string_view Strip(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::string> ParseEntry(std::string_view entry, UnknownDim* unknown_dim) {
  const size_t equals = entry.rfind('=');
  const std::string quoted = "'" + std::string(entry) + "'";
  const std::string_view value = equals == std::string_view::npos ? entry : Strip(entry.substr(equals + 1));
  const std::optional<int64_t> size = WholeNumber(value);
  if (!size || *size < 1) return "has no positive whole number in " + quoted;
  std::string_view name = equals == std::string_view::npos ? std::string_view() : Strip(entry.substr(0, equals));
  if (name.empty()) {
    if (unknown_dim->everywhere != 0) return "says twice what all others are taken for";
    unknown_dim->everywhere = *size;
    return std::nullopt;
  }
  UnknownDim::Named named;
  named.size = *size;
  const size_t colon = name.rfind(':');
  if (colon != std::string_view::npos) {
    const std::optional<int> dim = SmallNumber(Strip(name.substr(colon + 1)), kMostDims);
    if (!dim) return "has no dimension (0, 1, ...) behind the colon in " + quoted;
    named.dim = *dim;
    name = Strip(name.substr(0, colon));
  }
  if (name.empty()) return "names no argument in " + quoted;
  named.argument = std::string(name);
  for (const UnknownDim::Named& other : unknown_dim->named) {
    if (other.argument == named.argument && other.dim == named.dim) return "names one dimension twice: " + quoted;
  }
  unknown_dim->named.push_back(std::move(named));
  return std::nullopt;
}

bool ParseSeen(std::string_view text, SeenSize* seen) {
  const size_t colon = text.find(':');
  const size_t equals = text.find('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon) return false;
  std::string_view argument = text.substr(0, colon);
  const size_t dot = argument.find('.');
  constexpr int kMost = std::numeric_limits<int>::max();
  if (dot != std::string_view::npos) {
    const std::optional<int> tensor = SmallNumber(argument.substr(dot + 1), kMost);
    if (!tensor) return false;
    seen->tensor = *tensor;
    argument = argument.substr(0, dot);
  }
  const std::optional<int> number = SmallNumber(argument, kMost);
  const std::optional<int> dim = SmallNumber(text.substr(colon + 1, equals - colon - 1), kMostDims);
  const std::optional<int64_t> size = WholeNumber(text.substr(equals + 1));
  if (!number || !dim || !size) return false;
  seen->argument = *number;
  seen->dim = *dim;
  seen->size = *size;
  return true;
}

// Is the entry about this argument? A parameter's name stands for all its tensors.
bool Names(const UnknownDim::Named& named, const Argument& argument) {
  return named.argument == argument.name || named.argument == argument.user_name;
}

std::string Show(const TensorShape& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + (size < 0 ? "?" : std::to_string(size));
  return "[" + text + "]";
}

// What is wrong with the entry, where no tensor of the arguments that it names can be meant.
std::string Problem(const UnknownDim::Named& named, const std::vector<Argument>& arguments) {
  std::string shapes;
  for (const Argument& argument : arguments) {
    if (!Names(named, argument)) continue;
    if (argument.tensors.empty()) return "";
    for (const std::optional<TensorShape>& shape : argument.tensors) {
      if (!shape) return "";
      const bool has = static_cast<size_t>(named.dim) < shape->size();
      if (has && ((*shape)[named.dim] < 0 || (*shape)[named.dim] == named.size)) return "";
      shapes += (shapes.empty() ? "" : ", ") + Show(*shape);
    }
  }
  return "unknown_dim: " + named.argument + ":" + std::to_string(named.dim) + "=" + std::to_string(named.size) +
         " contradicts the shape " + shapes + " of '" + named.argument + "'";
}

struct Choice {
  int64_t size = 0;
  std::string source;
};

Choice Choose(const Argument& argument, size_t tensor, size_t dim, const UnknownDim& unknown_dim,
              const std::vector<SeenSize>& seen, int64_t assumed) {
  const UnknownDim::Named* best = nullptr;
  for (const UnknownDim::Named& named : unknown_dim.named) {
    if (static_cast<size_t>(named.dim) != dim || !Names(named, argument)) continue;
    if (best == nullptr || named.argument == argument.name) best = &named;
  }
  if (best != nullptr) return {best->size, "unknown_dim"};
  if (unknown_dim.everywhere > 0) return {unknown_dim.everywhere, "unknown_dim"};
  for (const SeenSize& size : seen) {
    if (size.argument == argument.number && static_cast<size_t>(size.tensor) == tensor &&
        static_cast<size_t>(size.dim) == dim) {
      return {size.size, size.source};
    }
  }
  return {assumed, ""};
}

}  // namespace

std::optional<std::string> ParseUnknownDim(const std::string& text, UnknownDim* unknown_dim) {
  UnknownDim parsed;
  for (const std::string_view part : Split(text, ',')) {
    const std::string_view entry = Strip(part);
    if (entry.empty()) return "has an empty entry";
    std::optional<std::string> problem = ParseEntry(entry, &parsed);
    if (problem) return problem;
  }
  *unknown_dim = std::move(parsed);
  return std::nullopt;
}

bool ParseSeenSizes(const std::string& text, std::vector<SeenSize>* sizes) {
  std::vector<SeenSize> parsed;
  for (const std::string_view group : Split(text, ';')) {
    const size_t bar = group.find('|');
    if (bar == std::string_view::npos) return false;
    for (const std::string_view item : Split(group.substr(bar + 1), ',')) {
      SeenSize seen;
      seen.source = std::string(group.substr(0, bar));
      if (!ParseSeen(item, &seen)) return false;
      parsed.push_back(std::move(seen));
    }
  }
  *sizes = std::move(parsed);
  return true;
}

bool ParseSeenValues(const std::string& text, std::vector<SeenValue>* values) {
  values->clear();
  if (text.empty()) return true;
  for (const std::string_view part : Split(text, ';')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    const std::optional<int> number = SmallNumber(part.substr(0, equals), std::numeric_limits<int>::max());
    if (!number) return false;
    SeenValue seen;
    seen.argument = *number;
    for (const std::string_view word : Split(part.substr(equals + 1), ' ')) {
      const std::optional<int64_t> value = WholeNumber(word);
      if (!value) return false;
      seen.numbers.push_back(*value);
    }
    values->push_back(std::move(seen));
  }
  return true;
}

ArgumentSizes SizeArguments(const std::vector<Argument>& arguments, const UnknownDim& unknown_dim,
                            const std::vector<SeenSize>& seen, int64_t assumed) {
  ArgumentSizes result;
  for (const UnknownDim::Named& named : unknown_dim.named) {
    const bool known = std::any_of(arguments.begin(), arguments.end(),
                                   [&named](const Argument& argument) { return Names(named, argument); });
    if (!known) {
      result.strange.push_back(named.argument);
      continue;
    }
    std::string problem = Problem(named, arguments);
    if (!problem.empty()) result.problems.push_back(std::move(problem));
  }
  for (size_t a = 0; a < arguments.size(); ++a) {
    const Argument& argument = arguments[a];
    for (size_t t = 0; t < argument.tensors.size(); ++t) {
      if (!argument.tensors[t]) continue;
      for (size_t d = 0; d < argument.tensors[t]->size(); ++d) {
        if ((*argument.tensors[t])[d] >= 0) continue;
        const Choice choice = Choose(argument, t, d, unknown_dim, seen, assumed);
        (choice.source.empty() ? result.open : result.bound).push_back({a, t, d, choice.size});
        const std::string name =
            argument.name + (argument.iterator ? "[" + std::to_string(t) + "]" : "") + ":" + std::to_string(d);
        result.lines.push_back(name + " = " + std::to_string(choice.size) + " (" +
                               (choice.source.empty() ? "assumed" : choice.source) + ")");
        if (choice.source.empty()) result.assumed.push_back(name);
      }
    }
  }
  return result;
}

}  // namespace lms
