#include "cc/cli/arguments.h"

#include <algorithm>
#include <cmath>

#include "cc/core/base/bytes.h"

namespace lms::cli {
namespace {

struct CommandSpec {
  std::string name;
  size_t least_files;
  std::vector<std::string> files;
  std::vector<std::string> options;
};

const std::vector<CommandSpec>& Commands() {
  static const auto* const commands = new std::vector<CommandSpec>{
      {"plan",
       1,
       {"GRAPH"},
       {"--budget", "--seconds", "--out", "--json", "--link", "--no-recompute", "--no-moves", "--single-start",
        "--sort"}},
      {"simulate", 1, {"GRAPH", "PLAN"}, {"--json", "--link", "--timeline", "--sort"}},
      {"show", 1, {"GRAPH"}, {"--json", "--sort"}},
      {"sort", 1, {"GRAPH"}, {"--out"}},
      {"pareto", 1, {"GRAPH"}, {"--points", "--seconds", "--json", "--no-moves", "--sort"}},
  };
  return *commands;
}

bool Holds(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool TakesValue(const std::string& option) {
  return Holds({"--budget", "--seconds", "--out", "--points", "--link"}, option);
}

template <typename List, typename Name>
std::string Join(const List& list, Name name) {
  std::string text;
  for (const auto& entry : list) text += (text.empty() ? "" : ", ") + name(entry);
  return text;
}

class Parser {
 public:
  explicit Parser(Arguments* arguments) : arguments_(*arguments) {}

  std::vector<std::string> Run(const std::vector<std::string>& words) {
    arguments_.help = Holds(words, "--help") || (!words.empty() && (words[0] == "help" || words[0] == "-h"));
    if (arguments_.help) return {};
    const std::string commands = Join(Commands(), [](const CommandSpec& c) { return c.name; });
    if (words.empty()) return {"no command; there are " + commands};
    for (const CommandSpec& spec : Commands()) {
      if (spec.name == words[0]) spec_ = &spec;
    }
    if (spec_ == nullptr) return {"unknown command '" + words[0] + "'; there are " + commands};
    arguments_.command = words[0];
    for (next_ = 1; next_ < words.size(); ++next_) ReadWord(words);
    CheckAll();
    return problems_;
  }

 private:
  void ReadWord(const std::vector<std::string>& words) {
    const std::string& word = words[next_];
    if (word == "-" || word.rfind('-', 0) != 0) {
      files_.push_back(word);
      return;
    }
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    const std::string name = word.substr(0, equals);
    const bool known = Holds(spec_->options, name);
    if (!known) {
      problems_.push_back("unknown option " + name + "; '" + spec_->name + "' has " +
                          Join(spec_->options, [](const std::string& option) { return option; }));
    }
    if (!TakesValue(name)) {
      if (known && has_value) problems_.push_back(name + " takes no value");
      SetFlag(name);
      return;
    }
    // Another command's option is passed over with its value.
    if (!has_value && ++next_ == words.size()) {
      if (known) problems_.push_back(name + " needs a value");
    } else if (known) {
      SetValue(name, has_value ? word.substr(equals + 1) : words[next_]);
    }
  }

  void SetFlag(const std::string& name) {
    if (name == "--json") arguments_.json = true;
    if (name == "--no-moves") arguments_.moves = false;
    if (name == "--no-recompute") arguments_.recompute = false;
    if (name == "--single-start") arguments_.single_start = true;
    if (name == "--sort") arguments_.sort = true;
    if (name == "--timeline") arguments_.timeline = true;
  }

  void SetValue(const std::string& name, const std::string& value) {
    if (name == "--out") {
      arguments_.out = value;
      if (value.empty()) problems_.push_back("--out is empty; it takes the name of a file, or - for standard output");
    } else if (name == "--budget") {
      Options options;
      if (!ParseOptions({{"memory_budget", value}}, &options).empty() ||
          options.memory_budget.kind == Budget::Kind::kAuto) {
        problems_.push_back("--budget '" + value + "' is none; it takes 60%, 6GiB, a number of bytes, or min");
        bad_budget_ = true;
      }
      arguments_.budget = options.memory_budget;
    } else if (name == "--seconds") {
      const std::optional<double> seconds = ParseNumber(value);
      if (!seconds || *seconds <= 0 || *seconds > 1e6) {
        problems_.push_back("--seconds '" + value + "' is none; it takes a number above 0 and up to 1000000");
      } else {
        arguments_.seconds = *seconds;
      }
    } else if (name == "--link") {
      if (!ReadLink(value)) {
        problems_.push_back("--link '" + value +
                            "' is none; it takes the speed out and in, in GB/s, such as 12,12, and /shared behind it "
                            "where both directions share one");
      }
    } else if (name == "--points") {
      const std::optional<double> points = ParseNumber(value);
      if (!points || *points < 2 || *points > 1000 || std::floor(*points) != *points) {
        problems_.push_back("--points '" + value + "' is none; it takes a whole number from 2 to 1000");
      } else {
        arguments_.points = static_cast<int>(*points);
      }
    }
  }

  bool ReadLink(std::string text) {
    const std::string shared = "/shared";
    const bool one_lane =
        text.size() > shared.size() && text.compare(text.size() - shared.size(), shared.size(), shared) == 0;
    if (one_lane) text.resize(text.size() - shared.size());
    const size_t comma = text.find(',');
    if (comma == std::string::npos) return false;
    const std::optional<double> out = ParseNumber(text.substr(0, comma));
    const std::optional<double> in = ParseNumber(text.substr(comma + 1));
    if (!out || !in || *out <= 0 || *in <= 0 || *out > 1e6 || *in > 1e6) return false;
    arguments_.link.out_bytes_per_us = 1000 * *out;
    arguments_.link.in_bytes_per_us = 1000 * *in;
    arguments_.link.out_share = arguments_.link.in_share = one_lane ? 0.5 : 1;
    return true;
  }

  void CheckAll() {
    const std::string files = Join(spec_->files, [](const std::string& file) { return file; });
    if (files_.size() < spec_->least_files) problems_.push_back("'" + spec_->name + "' needs a file: " + files);
    if (files_.size() > spec_->files.size()) {
      problems_.push_back("too many files, from '" + files_[spec_->files.size()] + "' on; '" + spec_->name +
                          "' takes " + files);
    }
    if (spec_->name == "plan" && arguments_.budget.kind == Budget::Kind::kAuto && !bad_budget_) {
      problems_.emplace_back("'plan' needs --budget: 60%, 6GiB, a number of bytes, or min");
    }
    if (!files_.empty()) arguments_.graph = files_[0];
    if (files_.size() > 1) arguments_.plan = files_[1];
    if (arguments_.graph == "-" && arguments_.plan == "-") {
      problems_.emplace_back("standard input (-) can be the graph or the plan, not both");
    }
    if (arguments_.out == "-" && spec_->name == "plan") {
      problems_.emplace_back("--out - would mix the plan with the figures on standard output: name a file");
    }
  }

  Arguments& arguments_;
  const CommandSpec* spec_ = nullptr;
  size_t next_ = 0;
  std::vector<std::string> files_;
  std::vector<std::string> problems_;
  bool bad_budget_ = false;
};

}  // namespace

std::vector<std::string> ParseArguments(const std::vector<std::string>& words, Arguments* arguments) {
  return Parser(arguments).Run(words);
}

std::string HelpText() {
  return R"(lms-core: plans for memory graphs, without TensorFlow. The formats are in docs/graph-format.md.

  lms-core plan GRAPH --budget B [--seconds S] [--out PLAN] [--json] [--link OUT,IN[/shared]]
                [--no-recompute] [--no-moves] [--single-start] [--sort]
      finds a plan under the budget at the least added time: 60% (of the activation peak, with what is
      resident on top), 6GiB or a number of bytes (the whole, resident included), or min (the least peak
      that is found). --out writes the plan, if the budget is met. --seconds: how much is searched, usually in
      half of this time (default 1). --no-moves: ops are run again, never later. --single-start: one greedy plan.
      --link: buffers may also be swapped, over a link with these speeds in GB/s; /shared: both directions share
      one. --no-recompute: nothing else is done.
  lms-core simulate GRAPH [PLAN] [--json] [--link OUT,IN[/shared]] [--timeline] [--sort]
      checks the plan and simulates the step with it: peak, where it is, added time, and with --timeline
      the bytes in use at each op
  lms-core show GRAPH [--json] [--sort]
      counts, totals, what may not be evicted and why
  lms-core sort GRAPH [--out GRAPH]
      the graph in the project's own execution order
  lms-core pareto GRAPH [--points N] [--seconds S] [--json] [--no-moves] [--sort]
      budgets from "keep everything" down to the least feasible, and the time that each adds; N budgets
      are planned for (default 10)

A file named - is standard input. --sort: the ops of the graph may stand in any order, and are sorted first.

Exit status: 0 done; 1 infeasible, or over the budget; 2 bad usage; 3 a file that cannot be read or written, or
holds something wrong.
)";
}

}  // namespace lms::cli
