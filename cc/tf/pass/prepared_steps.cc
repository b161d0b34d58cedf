#include "cc/tf/pass/prepared_steps.h"

#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "cc/tf/pass/keep_prepared.h"
#include "cc/tf/pass/optimizer.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace lms {
namespace {

struct KeptSteps {
  std::mutex mutex;
  std::map<std::string, std::vector<std::shared_ptr<const PreparedItem>>> by_name;
};

KeptSteps& Kept() {
  static auto* const kept = new KeptSteps;
  return *kept;
}

std::vector<std::shared_ptr<const PreparedItem>> KeptAs(const std::string& name) {
  KeptSteps& kept = Kept();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  const auto found = kept.by_name.find(name);
  if (found == kept.by_name.end()) return {};
  return found->second;
}

}  // namespace

void KeepPrepared(const std::string& name, PreparedItem prepared) {
  auto shared = std::make_shared<const PreparedItem>(std::move(prepared));
  KeptSteps& kept = Kept();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.by_name[name].push_back(std::move(shared));
}

void ForgetPrepared(const std::string& name) {
  KeptSteps& kept = Kept();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.by_name.erase(name);
}

std::vector<Report> PlanPrepared(const std::string& name, const std::string& entry) {
  tensorflow::RewriterConfig config;
  if (!config.ParseFromString(entry) || config.custom_optimizers_size() != 1) return {};
  std::vector<Report> all;
  for (const std::shared_ptr<const PreparedItem>& prepared : KeptAs(name)) {
    LmsOptimizer optimizer;
    const absl::Status status = optimizer.InitWithConfig(prepared->config, &config.custom_optimizers(0));
    if (!status.ok()) continue;  // it never is
    tensorflow::GraphDef graph;
    if (!graph.ParseFromString(prepared->graph)) continue;  // as above
    std::deque<Report> reports = optimizer.Plan(prepared->cluster, prepared->item.WithGraph(std::move(graph)));
    all.insert(all.end(), std::make_move_iterator(reports.begin()), std::make_move_iterator(reports.end()));
  }
  return all;
}

}  // namespace lms
