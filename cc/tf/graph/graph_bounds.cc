#include "cc/tf/graph/graph_bounds.h"

#include <algorithm>
#include <cstdio>

#include "cc/core/base/bytes.h"
#include "cc/core/base/words.h"
#include "cc/core/base/work_meter.h"

namespace lms {
namespace {

// Measured with tests/cc/huge on graphs of many shapes (docs/design.md, section 5), rounded up.
constexpr double kReadUs = 27;  // of a node
constexpr double kPlanUs = 45;
constexpr double kInputUs = 1;
constexpr int64_t kReadBytes = 5300;  // tensor lists; a dense network takes 3300
constexpr int64_t kPlanBytes = 5500;
constexpr int64_t kInputBytes = 60;

constexpr double kStepWork = 1.5;  // of what is planned in a second
constexpr double kRewrittenNodes = 100000;
constexpr int kLeastRewrites = 3;

}  // namespace

int64_t WorkForStep(double planner_seconds) {
  return static_cast<int64_t>(kStepWork * planner_seconds * static_cast<double>(kWorkPerSecond));
}

int MostRewrites(const tensorflow::grappler::GrapplerItem& item, double planner_seconds, int most) {
  const double times = std::max(1.0, planner_seconds) * kRewrittenNodes / std::max(1, item.graph.node_size());
  return std::clamp(static_cast<int>(std::min<double>(times, most)), kLeastRewrites, most);
}

GraphBounds::GraphBounds(double planner_seconds)
    : seconds(10 * std::max(1.0, planner_seconds)),
      bytes(static_cast<int64_t>(std::max(1.0, planner_seconds) * (int64_t{1} << 30))) {}

std::string WhyTooLarge(const tensorflow::grappler::GrapplerItem& item, GraphWork work, const GraphBounds& bounds) {
  const bool plan = work == GraphWork::kPlan;
  const int64_t nodes = item.graph.node_size();
  int64_t inputs = 0;
  for (const auto& node : item.graph.node()) inputs += node.input_size();
  const double seconds =
      1e-6 * ((plan ? kPlanUs : kReadUs) * static_cast<double>(nodes) + kInputUs * static_cast<double>(inputs));
  const int64_t bytes = (plan ? kPlanBytes : kReadBytes) * nodes + kInputBytes * inputs;
  if (seconds <= bounds.seconds && bytes <= bounds.bytes) return "";
  char took[80];
  std::snprintf(took, sizeof(took), "about %.0f s and ", seconds);
  char most[80];
  std::snprintf(most, sizeof(most), " (%.0f s, ", bounds.seconds);
  return "the graph has " + Counted(nodes, "node") + ": " + (plan ? "planning" : "reading") + " it would take " + took +
         FormatBytes(bytes) + ", more than it may" + most + FormatBytes(bounds.bytes) +
         "; a larger planner_seconds allows for more)";
}

}  // namespace lms
