// What the fuzzer has found (tests/cc/fuzz/cases), again: each case, and what it must not do any more.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cc/fuzz/check_case.h"

namespace lms::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(LMS_FUZZ_DIR) / "cases")) {
    if (entry.path().extension() == ".pbtxt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class FuzzCases : public ::testing::TestWithParam<std::string> {};

TEST_P(FuzzCases, HasNoFinding) {
  std::ifstream file(fs::path(LMS_FUZZ_DIR) / "cases" / (GetParam() + ".pbtxt"), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  FuzzCase fuzz_case;
  std::string problem;
  ASSERT_TRUE(FromText(text.str(), &fuzz_case, &problem)) << problem;
  const Checked checked = CheckCase(fuzz_case, /*run=*/true);
  EXPECT_EQ(checked.problem, "") << checked.status << ": " << checked.reason;
  FuzzCase again;
  ASSERT_TRUE(FromText(ToText(fuzz_case), &again, &problem)) << problem;
  EXPECT_TRUE(ToText(again) == ToText(fuzz_case));
}

INSTANTIATE_TEST_SUITE_P(Found, FuzzCases, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<std::string>& name) { return name.param; });

}  // namespace
}  // namespace lms::fuzz
