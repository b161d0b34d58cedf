#include "cc/core/options/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace lms {
namespace {

using Kind = Budget::Kind;

Budget BudgetOf(const OptionValue& value) {
  Options options;
  const std::vector<std::string> problems = ParseOptions({{"memory_budget", value}}, &options);
  EXPECT_TRUE(problems.empty()) << problems.front();
  return options.memory_budget;
}

std::string ProblemWith(const std::string& name, const OptionValue& value) {
  Options options;
  const std::vector<std::string> problems = ParseOptions({{name, value}}, &options);
  EXPECT_EQ(problems.size(), 1u);
  return problems.empty() ? "" : problems.front();
}

TEST(Options, NothingGivenIsTheDefaults) {
  Options options;
  EXPECT_TRUE(ParseOptions({}, &options).empty());
  EXPECT_EQ(options.memory_budget.kind, Kind::kAuto);
  EXPECT_TRUE(options.recompute);
  EXPECT_TRUE(options.reorder);
  EXPECT_FALSE(options.strict);
  EXPECT_EQ(options.unknown_dim.everywhere, 0);
  EXPECT_TRUE(options.unknown_dim.named.empty());
  EXPECT_EQ(options.dump_graphs, "");
}

TEST(Options, ABudgetInEachOfItsForms) {
  EXPECT_EQ(BudgetOf(std::string("auto")).kind, Kind::kAuto);
  EXPECT_EQ(BudgetOf(std::string("min")).kind, Kind::kMin);
  EXPECT_EQ(BudgetOf(std::string("6GiB")).bytes, int64_t{6} << 30);
  EXPECT_EQ(BudgetOf(int64_t{12345}).bytes, 12345);
  EXPECT_EQ(BudgetOf(1e9).bytes, 1000000000);
  const Budget percent = BudgetOf(std::string("62.5%"));
  EXPECT_EQ(percent.kind, Kind::kPercent);
  EXPECT_EQ(percent.percent, 62.5);
}

TEST(Options, ABudgetIsShownAsItWasAsked) {
  EXPECT_EQ(BudgetOf(std::string("auto")).ToString(), "auto");
  EXPECT_EQ(BudgetOf(std::string("min")).ToString(), "min");
  EXPECT_EQ(BudgetOf(std::string("62.5%")).ToString(), "62.5%");
  EXPECT_EQ(BudgetOf(std::string("6GiB")).ToString(), "6.00 GiB");
}

TEST(Options, ABudgetForEachDevice) {
  Options options;
  ASSERT_TRUE(ParseOptions({{"memory_budget", std::string("GPU:0=6GiB, GPU=60%,CPU=1000, = min")}}, &options).empty());
  const std::string task = "/job:worker/replica:0/task:1/device:";
  EXPECT_EQ(BudgetOf(options, task + "GPU:0").bytes, int64_t{6} << 30);
  EXPECT_EQ(BudgetOf(options, task + "GPU:1").percent, 60);
  EXPECT_EQ(BudgetOf(options, "CPU:3").bytes, 1000);
  EXPECT_EQ(BudgetOf(options, task + "TPU:0").kind, Kind::kMin);
  ASSERT_TRUE(ParseOptions({{"memory_budget", std::string("GPU:1=10GiB")}}, &options).empty());
  EXPECT_EQ(BudgetOf(options, task + "GPU:10").kind, Kind::kAuto);
}

TEST(Options, WrongBudgetsForDevices) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"GPU:0=6GiB, 7GiB", "has an entry without a device: '7GiB'"},
      {"gpu0=6GiB", "names 'gpu0', which is no device"},
      {"GPU:=6GiB", "names 'GPU:', which is no device"},
      {"GPU:0=lots", "has a budget for 'GPU:0' that is not a memory size"},
      {"GPU:0=1, GPU:0=2", "names 'GPU:0' twice"},
      {"=1, =2", "names '' twice"},
  };
  for (const auto& [text, problem] : wrong) {
    EXPECT_NE(ProblemWith("memory_budget", text).find(problem), std::string::npos)
        << ProblemWith("memory_budget", text);
  }
}

TEST(Options, WrongBudgets) {
  EXPECT_EQ(ProblemWith("memory_budget", int64_t{-1}).rfind("memory_budget=-1 is not a positive number of bytes", 0),
            0u);
  for (const OptionValue& value :
       {OptionValue(int64_t{0}), OptionValue(0.5), OptionValue(1e300), OptionValue(std::nan("")),
        OptionValue(std::numeric_limits<double>::infinity()), OptionValue(true), OptionValue(std::string("lots")),
        OptionValue(std::string("")), OptionValue(std::string("0%")), OptionValue(std::string("101%")),
        OptionValue(std::string("%")), OptionValue(std::string("0 MB")), OptionValue(std::string("AUTO"))}) {
    EXPECT_NE(ProblemWith("memory_budget", value).find("; accepted: 'auto', 'min'"), std::string::npos);
  }
}

TEST(Options, TheOthers) {
  Options options;
  EXPECT_TRUE(ParseOptions({{"recompute", false},
                            {"reorder", false},
                            {"strict", true},
                            {"unknown_dim", int64_t{64}},
                            {"planner_seconds", int64_t{2}},
                            {"safety_margin", 0.125},
                            {"dump_graphs", std::string("/tmp/graphs")}},
                           &options)
                  .empty());
  EXPECT_FALSE(options.recompute);
  EXPECT_FALSE(options.reorder);
  EXPECT_TRUE(options.strict);
  EXPECT_EQ(options.unknown_dim.everywhere, 64);
  EXPECT_EQ(options.planner_seconds, 2);
  EXPECT_EQ(options.safety_margin, 0.125);
  EXPECT_EQ(options.dump_graphs, "/tmp/graphs");
}

TEST(Options, WrongValuesOfTheOthers) {
  EXPECT_EQ(ProblemWith("strict", std::string("yes")), "strict='yes' is not accepted; accepted: True or False");
  EXPECT_EQ(ProblemWith("recompute", int64_t{1}), "recompute=1 is not accepted; accepted: True or False");
  EXPECT_NE(ProblemWith("unknown_dim", int64_t{0}).find("a positive whole number"), std::string::npos);
  EXPECT_NE(ProblemWith("unknown_dim", 1.5).find("a positive whole number"), std::string::npos);
  EXPECT_NE(ProblemWith("planner_seconds", 0.0).find("above 0"), std::string::npos);
  EXPECT_NE(ProblemWith("planner_seconds", std::numeric_limits<double>::infinity()).find("above 0"), std::string::npos);
  EXPECT_NE(ProblemWith("safety_margin", 1.0).find("from 0 to below 1"), std::string::npos);
  for (const std::string& path : {std::string(), std::string("~/graphs"), std::string("a\0b", 3)}) {
    EXPECT_NE(ProblemWith("dump_graphs", path).find("the path of a directory"), std::string::npos);
    EXPECT_NE(ProblemWith("profile", path).find("'auto', 'none', or the path"), std::string::npos);
  }
  EXPECT_NE(ProblemWith("profile", int64_t{1}).find("'auto', 'none', or the path"), std::string::npos);
  EXPECT_NE(ProblemWith("dump_graphs", true).find("the path of a directory"), std::string::npos);
  EXPECT_NE(ProblemWith("safety_margin", std::nan("")).find("from 0 to below 1"), std::string::npos);
}

TEST(Options, AProfileIsTheDevicesOwnNoneOrAFile) {
  const std::vector<std::pair<OptionValue, std::string>> expected = {
      {true, ""}, {std::string("auto"), ""}, {false, "none"}, {std::string("none"), "none"}, {std::string("/p"), "/p"}};
  EXPECT_EQ(Options().profile, "");
  for (const auto& [value, profile] : expected) {
    Options options;
    EXPECT_TRUE(ParseOptions({{"profile", value}}, &options).empty());
    EXPECT_EQ(options.profile, profile);
  }
}

TEST(Options, AnUnknownOneNamesTheNearestIfItIsNear) {
  EXPECT_EQ(
      ProblemWith("memory_buget", int64_t{1}).rfind("unknown option 'memory_buget' (did you mean 'memory_budget'?)", 0),
      0u);
  const std::string far = ProblemWith("colour", true);
  EXPECT_EQ(far.find("did you mean"), std::string::npos);
  for (const OptionSpec& spec : OptionSpecs()) EXPECT_NE(far.find(spec.name), std::string::npos) << spec.name;
}

TEST(Options, AllProblemsAtOnceAndNothingTaken) {
  Options options;
  options.unknown_dim.everywhere = 7;
  const std::vector<std::string> problems = ParseOptions(
      {{"memory_budget", std::string("lots")}, {"colour", true}, {"strict", 2.0}, {"unknown_dim", int64_t{5}}},
      &options);
  EXPECT_EQ(problems.size(), 3u);
  EXPECT_EQ(options.unknown_dim.everywhere, 7);
}

TEST(Options, NamesOfBeforeAreRead) {
  Options options;
  EXPECT_TRUE(ParseOptions({{"schedule", false}, {"feedback", false}}, &options).empty());
  EXPECT_FALSE(options.reorder);
  EXPECT_FALSE(options.replan);
  const std::vector<std::string> problems = ParseOptions({{"schedule", std::string("yes")}}, &options);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].rfind("reorder='yes'", 0), 0u) << problems[0];
}

TEST(Options, TheLeastPeakNeedsAMeans) {
  Options options;
  const auto problems = [&](bool recompute, bool reorder, bool swap) {
    return ParseOptions(
               {{"memory_budget", std::string("min")}, {"recompute", recompute}, {"reorder", reorder}, {"swap", swap}},
               &options)
        .size();
  };
  EXPECT_EQ(problems(false, false, false), 1u);
  EXPECT_EQ(problems(true, false, false), 0u);
  EXPECT_EQ(problems(false, true, false), 0u);
  EXPECT_EQ(problems(false, false, true), 0u);
}

TEST(Options, EverySpecIsAnOptionThatTheParserKnows) {
  for (const OptionSpec& spec : OptionSpecs()) {
    EXPECT_EQ(ProblemWith(spec.name, std::string("~")).rfind(spec.name + "='~' ", 0), 0u) << spec.name;
    EXPECT_FALSE(spec.accepted.empty());
  }
}

TEST(Options, SizesByArgument) {
  Options options;
  EXPECT_TRUE(ParseOptions({{"unknown_dim", std::string("images=64, tokens:1=128")}}, &options).empty());
  EXPECT_EQ(options.unknown_dim.named.size(), 2u);
  EXPECT_NE(ProblemWith("unknown_dim", std::string("images=0")).find("no positive whole number in 'images=0'"),
            std::string::npos);
}

TEST(Options, WhatIsInternalIsNoOptionOfTheUsers) {
  Options options;
  const OptionMap map = {{"_seen_sizes", std::string("first call|0:0=64")}, {"_feedback", std::string("1.25|why")}};
  EXPECT_EQ(ParseOptions(map, &options).size(), 2u);
  EXPECT_TRUE(ParseOptions(map, &options, /*internal=*/true).empty());
  EXPECT_EQ(options.seen_sizes.size(), 1u);
  EXPECT_EQ(options.observed_excess, 1.25);
  EXPECT_EQ(options.planned_again, "why");
  for (const char* text : {"", "1.25", "0.5|why", "x|why", "1e9|why"}) {
    EXPECT_EQ(ParseOptions({{"_feedback", std::string(text)}}, &options, true).size(), 1u) << text;
  }
}

}  // namespace
}  // namespace lms
