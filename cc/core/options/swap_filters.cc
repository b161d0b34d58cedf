#include "cc/core/options/swap_filters.h"

#include "cc/core/options/swap_options.h"

namespace lms {
namespace {

// One option's names, and which of them were met.
class NameFilter {
 public:
  NameFilter(const char* option, const std::string& list)
      : option_(option), names_(SplitNames(list)), met_(names_.size()) {}

  bool empty() const { return names_.empty(); }

  template <typename Fits>
  bool Meet(const Fits& fits) {
    bool any = false;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!fits(names_[i])) continue;
      met_[i] = true;
      any = true;
    }
    return any;
  }

  void Warn(const char* what, std::vector<std::string>* warnings) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (met_[i]) continue;
      warnings->push_back(std::string(option_) + ": '" + names_[i] + "' is " + what);
    }
  }

 private:
  const char* option_;
  std::vector<std::string> names_;
  std::vector<bool> met_;
};

}  // namespace

std::vector<std::string> FilterSwappable(const Options& options, MemGraph* graph) {
  NameFilter include("swap_include", options.swap_include);
  NameFilter exclude("swap_exclude", options.swap_exclude);
  NameFilter include_ops("swap_include_ops", options.swap_include_ops);
  NameFilter exclude_ops("swap_exclude_ops", options.swap_exclude_ops);
  for (MemBuffer& buffer : graph->buffers) {
    if (buffer.resident || buffer.producer == kNone) continue;
    const MemOp& op = graph->ops[buffer.producer];
    const auto in_scope = [&](const std::string& scope) { return InScope(op.name, scope); };
    const auto of_type = [&](const std::string& type) { return op.type == type; };
    // All are asked, so that all that is met is known.
    const bool wanted = include.Meet(in_scope) || include.empty();
    const bool wanted_op = include_ops.Meet(of_type) || include_ops.empty();
    const bool unwanted = exclude.Meet(in_scope);
    const bool unwanted_op = exclude_ops.Meet(of_type);
    if (!wanted || !wanted_op || unwanted || unwanted_op) buffer.swappable = false;
  }
  std::vector<std::string> warnings;
  const char* const scope = "a scope that no tensor of the step is made in";
  const char* const type = "the type of no operation of the step that makes a tensor";
  include.Warn(scope, &warnings);
  exclude.Warn(scope, &warnings);
  include_ops.Warn(type, &warnings);
  exclude_ops.Warn(type, &warnings);
  return warnings;
}

void FilterLarger(int64_t most_bytes, MemGraph* graph) {
  for (MemBuffer& buffer : graph->buffers) {
    if (buffer.bytes > most_bytes) buffer.swappable = false;
  }
}

}  // namespace lms
