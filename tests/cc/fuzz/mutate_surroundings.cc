#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tests/cc/fuzz/mutation.h"

namespace lms::fuzz {

using tensorflow::AttrValue;
using tensorflow::NodeDef;

bool OddFetch(Mutation* mutation) {
  const std::string fetch = mutation->random.OneIn(2)    ? mutation->Name()
                            : mutation->Any() == nullptr ? "x"
                                                         : mutation->Any()->name() + ":7";
  if (mutation->random.OneIn(4)) mutation->fuzz_case.item.fetch.clear();
  mutation->fuzz_case.item.fetch.push_back(fetch);
  mutation->Note("odd fetch");
  return true;
}

bool OddFeed(Mutation* mutation) {
  mutation->fuzz_case.item.feed.emplace_back(
      mutation->random.OneIn(2) || mutation->Any() == nullptr ? mutation->Name() : mutation->Any()->name() + ":1",
      tensorflow::Tensor());
  mutation->Note("odd feed");
  return true;
}

bool OddKeep(Mutation* mutation) {
  mutation->fuzz_case.item.keep_ops.push_back(mutation->Name());
  mutation->Note("odd keep");
  return true;
}

bool OddDevice(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  static const auto* const devices =
      new std::vector<std::string>{"",         "garbage",
                                   "/device:", "/job:x/task:-1",
                                   "/cpu:0",   "/device:GPU:99999999999",
                                   "CPU:0",    "/job:localhost/replica:0/task:0/device:XPU:0",
                                   "//",       std::string("\0", 1),
                                   "GPU:",     "/gpu:*"};
  const std::string device = (*devices)[mutation->random.Below(static_cast<int>(devices->size()))];
  if (mutation->random.OneIn(3)) {
    for (NodeDef& each : *mutation->graph.mutable_node()) each.set_device(device);
  } else {
    node->set_device(device);
  }
  mutation->Note("device " + device);
  return true;
}

bool DeviceOfSome(Mutation* mutation) {
  for (NodeDef& node : *mutation->graph.mutable_node()) {
    if (mutation->random.OneIn(4)) node.set_device("/job:localhost/replica:0/task:0/device:GPU:0");
  }
  if (mutation->random.OneIn(2)) mutation->fuzz_case.cluster = "gpu";
  mutation->Note("some on a GPU");
  return true;
}

bool OddOption(Mutation* mutation) {
  static const auto* const names =
      new std::vector<std::string>{"memory_budget",  "recompute",       "reorder",          "swap",
                                   "swap_to",        "unknown_dim",     "safety_margin",    "replan",
                                   "strict",         "swap_host_limit", "swap_disk_limit",  "swap_tensors",
                                   "swap_least_gap", "swap_in_ahead",   "swap_group",       "swap_sync",
                                   "swap_include",   "swap_exclude",    "swap_include_ops", "serialize_bytes",
                                   "_seen_sizes",    "_feedback",       "no_such_option",   "profile"};
  static const auto* const texts = new std::vector<std::string>{
      "",     "-1",     "1e400",  "nan",  "inf%",  "100.0001%",  "0%",         "0.0001%",     "9223372036854775807",
      "1EiB", "1e30GB", "min",    "auto", "call|", "call|x:y=z", "call|0:0=5", "1.5|again",   "1e6|x",
      "x=0",  "=,=,",   "a:99=3", "\xff", "host",  "/",          "both",       "Tanh,MatMul", "feed_0,var"};
  AttrValue& value = mutation->Option((*names)[mutation->random.Below(static_cast<int>(names->size()))]);
  switch (mutation->random.Below(5)) {
    case 0:
      value.set_i(mutation->Number());
      break;
    case 1:
      mutation->MakeOdd(&value);
      break;
    default:
      value.set_s((*texts)[mutation->random.Below(static_cast<int>(texts->size()))]);
  }
  mutation->Note("odd option");
  return true;
}

bool OddPath(Mutation* mutation) {
  static const auto* const paths = new std::vector<std::string>{
      "/proc/lms",  "/dev/null/x", "/nonexistent/deep/er", "/etc/hostname", std::string(5000, 'p'),
      "/proc/self", "/dev/full"};
  const char* const names[] = {"dump_graphs", "profile", "swap_to"};
  mutation->Option(names[mutation->random.Below(3)])
      .set_s((*paths)[mutation->random.Below(static_cast<int>(paths->size()))]);
  mutation->Note("odd path");
  return true;
}

bool OddInternal(Mutation* mutation) {
  if (mutation->random.OneIn(2)) {
    mutation->Option("time_ops").set_s("fuzz");
  } else {
    mutation->fuzz_case.threads = static_cast<int>(mutation->Number() % 100);
  }
  mutation->Note("time_ops or threads");
  return true;
}

bool Versions(Mutation* mutation) {
  mutation->graph.mutable_versions()->set_producer(static_cast<int>(mutation->Number() % 3000));
  mutation->graph.mutable_versions()->set_min_consumer(static_cast<int>(mutation->Number() % 3000));
  mutation->Note("versions");
  return true;
}

}  // namespace lms::fuzz
