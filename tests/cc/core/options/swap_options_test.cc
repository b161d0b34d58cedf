#include "cc/core/options/swap_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lms {
namespace {

using Text = std::string;

Options SwapParsed(const OptionMap& map) {
  Options options;
  for (const std::string& problem : ParseOptions(map, &options)) ADD_FAILURE() << problem;
  return options;
}

std::vector<std::string> Problems(const OptionMap& map) {
  Options options;
  return ParseOptions(map, &options);
}

TEST(SwapOptions, TheDefaultsLeaveItToThePlanner) {
  const Options options = SwapParsed({});
  EXPECT_TRUE(options.swap);
  EXPECT_EQ(options.swap_to, "host");
  EXPECT_EQ(options.swap_host_limit, 0);
  EXPECT_EQ(options.swap_disk_limit, 0);
  EXPECT_EQ(options.swap_out_bandwidth, 0);
  EXPECT_EQ(options.swap_in_bandwidth, 0);
  EXPECT_EQ(options.swap_rules.most_tensors, -1);
  EXPECT_EQ(options.swap_rules.least_gap, 0);
  EXPECT_EQ(options.swap_rules.ahead, -1);
  EXPECT_EQ(options.swap_rules.group, 0);
  EXPECT_FALSE(options.swap_rules.wait_for_out);
  EXPECT_FALSE(options.swap_rules.wait_for_in);
  EXPECT_EQ(options.serialize_bytes, 0);
}

TEST(SwapOptions, EachIsTaken) {
  const Options options = SwapParsed({{"swap_to", Text("/data/spill")},
                                      {"swap_host_limit", int64_t{1} << 30},
                                      {"swap_disk_limit", Text("8GiB")},
                                      {"swap_out_bandwidth", Text("3GB")},
                                      {"swap_in_bandwidth", 2.5e9},
                                      {"swap_tensors", int64_t{5}},
                                      {"swap_least_gap", int64_t{10}},
                                      {"swap_in_ahead", int64_t{3}},
                                      {"swap_group", int64_t{2}},
                                      {"swap_sync", Text("out")},
                                      {"swap_include", Text(" block1/ , block2/conv")},
                                      {"swap_exclude", Text("block1/bn")},
                                      {"swap_include_ops", Text("Conv2D,Relu")},
                                      {"swap_exclude_ops", Text("_FusedConv2D")},
                                      {"serialize_bytes", Text("1GiB")}});
  EXPECT_EQ(options.swap_to, "/data/spill");
  EXPECT_EQ(options.swap_host_limit, int64_t{1} << 30);
  EXPECT_EQ(options.swap_disk_limit, int64_t{8} << 30);
  EXPECT_EQ(options.swap_out_bandwidth, 3e9);
  EXPECT_EQ(options.swap_in_bandwidth, 2.5e9);
  EXPECT_EQ(options.swap_rules.most_tensors, 5);
  EXPECT_EQ(options.swap_rules.least_gap, 10);
  EXPECT_EQ(options.swap_rules.ahead, 3);
  EXPECT_EQ(options.swap_rules.group, 2);
  EXPECT_TRUE(options.swap_rules.wait_for_out);
  EXPECT_FALSE(options.swap_rules.wait_for_in);
  EXPECT_EQ(options.swap_include, "block1,block2/conv");
  EXPECT_EQ(options.swap_exclude, "block1/bn");
  EXPECT_EQ(options.swap_include_ops, "Conv2D,Relu");
  EXPECT_EQ(options.swap_exclude_ops, "_FusedConv2D");
  EXPECT_EQ(options.serialize_bytes, int64_t{1} << 30);
  EXPECT_FALSE(SwapParsed({{"swap", false}}).swap);
}

TEST(SwapOptions, Tiers) {
  for (const char* tier : {"host", "disk", "/var/tmp", "./spill", "a/b"}) {
    EXPECT_EQ(SwapParsed({{"swap_to", Text(tier)}}).swap_to, tier);
  }
  for (const OptionValue& value : {OptionValue(Text("")), OptionValue(Text("~/spill")), OptionValue(Text("gpu")),
                                   OptionValue(Text("a/\0b", 4)), OptionValue(true), OptionValue(int64_t{1})}) {
    const std::vector<std::string> problems = Problems({{"swap_to", value}});
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_NE(problems[0].find("; accepted: 'host', 'disk', or the path of a directory"), Text::npos) << problems[0];
  }
  EXPECT_NE(Problems({{"swap_to", Text("spill")}})[0].find("'./spill'"), Text::npos);
}

TEST(SwapOptions, BandwidthsAreBytesPerSecond) {
  const std::vector<std::pair<OptionValue, double>> good = {{int64_t{5}, 5},         {3e9, 3e9},
                                                            {Text("3e9"), 3e9},      {Text("3GB"), 3e9},
                                                            {Text("3 GB/s"), 3e9},   {Text("2GiB/s"), 2147483648.0},
                                                            {Text("123456"), 123456}};
  for (const auto& [value, rate] : good)
    EXPECT_EQ(SwapParsed({{"swap_out_bandwidth", value}}).swap_out_bandwidth, rate);
  for (const OptionValue& value :
       {OptionValue(int64_t{0}), OptionValue(-1.0), OptionValue(Text("fast")), OptionValue(Text("/s")),
        OptionValue(Text("")), OptionValue(1e16), OptionValue(true), OptionValue(Text("3GB/h"))}) {
    ASSERT_EQ(Problems({{"swap_in_bandwidth", value}}).size(), 1U);
  }
}

TEST(SwapOptions, BadNumbers) {
  for (const char* name : {"swap_host_limit", "serialize_bytes"}) {
    for (const OptionValue& value :
         {OptionValue(int64_t{-1}), OptionValue(1.5), OptionValue(Text("lots")), OptionValue(true)}) {
      EXPECT_EQ(Problems({{name, value}}).size(), 1U) << name;
    }
  }
  EXPECT_EQ(Problems({{"swap_host_limit", int64_t{0}}})[0].rfind("swap_host_limit=0 is not a positive number", 0), 0U);
  EXPECT_TRUE(Problems({{"serialize_bytes", int64_t{0}}}).empty());
  for (const char* name : {"swap_tensors", "swap_least_gap", "swap_in_ahead", "swap_group"}) {
    for (const OptionValue& value : {OptionValue(int64_t{-2}), OptionValue(1.0), OptionValue(Text("3")),
                                     OptionValue(int64_t{1} << 40), OptionValue(false)}) {
      EXPECT_EQ(Problems({{name, value}}).size(), 1U) << name;
    }
    EXPECT_TRUE(Problems({{name, int64_t{0}}}).empty()) << name;
  }
  EXPECT_TRUE(Problems({{"swap_tensors", int64_t{-1}}}).empty());
  EXPECT_TRUE(Problems({{"swap_in_ahead", int64_t{-1}}}).empty());
  EXPECT_EQ(Problems({{"swap_group", int64_t{-1}}}).size(), 1U);
  EXPECT_EQ(Problems({{"swap_sync", Text("always")}}).size(), 1U);
}

TEST(SwapOptions, NamesThatTensorFlowDoesNotGive) {
  for (const char* list : {"", " , ", "a b", "block~", "a;b", "/"}) {
    EXPECT_EQ(Problems({{"swap_include", Text(list)}}).size(), 1U) << list;
  }
  EXPECT_EQ(Problems({{"swap_exclude_ops", Text("nn/Relu")}}).size(), 1U);
  EXPECT_EQ(Problems({{"swap_exclude_ops", int64_t{1}}}).size(), 1U);
}

TEST(SwapOptions, Contradictions) {
  const auto only = [](const OptionMap& map) {
    const std::vector<std::string> problems = Problems(map);
    EXPECT_EQ(problems.size(), 1U);
    return problems.empty() ? "" : problems[0];
  };
  EXPECT_EQ(only({{"swap", false}, {"swap_group", int64_t{1}}, {"swap_sync", Text("in")}}),
            "swap_group, swap_sync with swap=False: leave it out, or set swap=True");
  EXPECT_TRUE(Problems({{"swap", false}, {"swap_to", Text("disk")}}).empty());
  EXPECT_NE(only({{"swap_disk_limit", int64_t{5}}}).find("set swap_to='disk'"), Text::npos);
  EXPECT_NE(only({{"swap_sync", Text("in")}, {"swap_in_ahead", int64_t{2}}}).find("leave one of them out"), Text::npos);
  EXPECT_EQ(Problems({{"swap_sync", Text("both")}, {"swap_in_ahead", int64_t{0}}}).size(), 1U);
  EXPECT_TRUE(Problems({{"swap_sync", Text("out")}, {"swap_in_ahead", int64_t{2}}}).empty());
  EXPECT_TRUE(Problems({{"swap_sync", Text("in")}, {"swap_in_ahead", int64_t{-1}}}).empty());
  EXPECT_NE(only({{"swap_include", Text("a/b")}, {"swap_exclude", Text("a")}}).find("takes back all of"), Text::npos);
  EXPECT_EQ(Problems({{"swap_include", Text("a,b")}, {"swap_exclude", Text("b,a")}}).size(), 2U);
  EXPECT_TRUE(Problems({{"swap_include", Text("a")}, {"swap_exclude", Text("a/b,a2")}}).empty());
  EXPECT_NE(only({{"swap_include_ops", Text("Relu")}, {"swap_exclude_ops", Text("Add,Relu")}}).find("both name 'Relu'"),
            Text::npos);
  EXPECT_NE(only({{"serialize_bytes", int64_t{5}}, {"reorder", false}}).find("set reorder=True"), Text::npos);
}

TEST(SwapOptions, EverySpecIsParsedAndInOrder) {
  for (const OptionSpec& spec : SwapOptionSpecs()) {
    Options options;
    EXPECT_TRUE(ParseSwapOption(spec.name, Text("~"), &options)) << spec.name;
  }
  Options options;
  EXPECT_FALSE(ParseSwapOption("swap_ahead", int64_t{1}, &options));
  EXPECT_TRUE(std::is_sorted(OptionSpecs().begin(), OptionSpecs().end(),
                             [](const OptionSpec& a, const OptionSpec& b) { return a.name < b.name; }));
}

TEST(SwapOptions, ScopesAreWholeParts) {
  EXPECT_TRUE(InScope("a/b/c", "a"));
  EXPECT_TRUE(InScope("a/b/c", "b"));
  EXPECT_TRUE(InScope("a/b/c", "b/c"));
  EXPECT_TRUE(InScope("a/b/c", "a/b/c"));
  EXPECT_TRUE(InScope("bb/b", "b"));
  EXPECT_FALSE(InScope("a/b2/c", "b"));
  EXPECT_FALSE(InScope("a/2b/c", "b"));
  EXPECT_FALSE(InScope("a", "a/b"));
}

}  // namespace
}  // namespace lms
