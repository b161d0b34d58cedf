#include <cstdint>
#include <string>

#include "tests/cc/fuzz/random_step.h"

namespace lms::fuzz {
namespace {

tensorflow::AttrValue& Option(FuzzCase* fuzz_case, const std::string& name) {
  return (*fuzz_case->config.mutable_parameter_map())[name];
}

}  // namespace

void AddOptions(Random* random, FuzzCase* fuzz_case) {
  // Little time: the planner is fuzzed by others.
  Option(fuzz_case, "planner_seconds").set_f(random->OneIn(8) ? 0.001F : 0.01F);
  Option(fuzz_case, "profile").set_s("none");
  switch (random->Below(8)) {
    case 0:
      Option(fuzz_case, "memory_budget").set_s("min");
      break;
    case 1:
      Option(fuzz_case, "memory_budget").set_i(1 + random->Below(1 << 22));
      break;
    case 2:
      Option(fuzz_case, "memory_budget").set_i(int64_t{1} << (10 + random->Below(52)));
      break;
    case 3:
      if (random->OneIn(4)) {
        Option(fuzz_case, "memory_budget").set_s("auto");
        break;
      }
      [[fallthrough]];
    default:
      Option(fuzz_case, "memory_budget").set_s(std::to_string(45 + random->Below(52)) + "%");
  }
  const auto flag = [&](const char* name, int one_in, bool value) {
    if (random->OneIn(one_in)) Option(fuzz_case, name).set_b(value);
  };
  flag("recompute", 6, false);
  flag("reorder", 6, false);
  flag("swap", 6, false);
  flag("strict", 10, true);
  const auto& map = fuzz_case->config.parameter_map();
  if (Option(fuzz_case, "memory_budget").s() == "min") fuzz_case->config.mutable_parameter_map()->erase("swap");
  if (map.count("swap") == 0 && random->OneIn(3)) {
    // A rate that is given is not measured.
    Option(fuzz_case, "swap_to").set_s("disk");
    Option(fuzz_case, "swap_out_bandwidth").set_s(random->OneIn(2) ? "1GB" : "1TB");
    Option(fuzz_case, "swap_in_bandwidth").set_s("2GB");
    if (random->OneIn(4)) Option(fuzz_case, "swap_disk_limit").set_i(int64_t{1} << (10 + random->Below(30)));
    if (random->OneIn(6)) Option(fuzz_case, "swap_sync").set_s("both");
    if (random->OneIn(6)) Option(fuzz_case, "swap_tensors").set_i(random->Below(4));
    if (map.count("swap_sync") == 0 && random->OneIn(6)) Option(fuzz_case, "swap_in_ahead").set_i(random->Below(5));
    if (random->OneIn(6)) Option(fuzz_case, "swap_group").set_i(random->Below(5));
  }
  if (map.count("reorder") == 0 && random->OneIn(10))
    Option(fuzz_case, "serialize_bytes").set_i(1 << random->Below(20));
  if (random->OneIn(5)) Option(fuzz_case, "unknown_dim").set_i(1 + random->Below(1000));
  if (random->OneIn(10)) Option(fuzz_case, "safety_margin").set_f(0.5F);
  if (random->OneIn(20)) Option(fuzz_case, "_feedback").set_s("1.2|call 2 took more");
}

}  // namespace lms::fuzz
