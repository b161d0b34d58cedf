// What all stages of one device's plan are given: the step, what was asked for, and the accounts that they share.

#ifndef LMS_CC_TF_PASS_DEVICE_CONTEXT_H_
#define LMS_CC_TF_PASS_DEVICE_CONTEXT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/base/work_meter.h"
#include "cc/core/options/options.h"
#include "cc/core/report/report.h"
#include "cc/core/report/stage_watch.h"
#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"
#include "cc/tf/graph/graph_bounds.h"
#include "cc/tf/import/import.h"
#include "cc/tf/runtime/placed_memory.h"
#include "cc/tf/sizes/dimensions.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// A plan that was accepted, for devices that hold the same part of a model to follow.
struct Model {
  ImportedGraph imported;  // in the order that was planned
  std::vector<bool> part;  // per op: on the device
  PlannerResult planned;
  int64_t order_limit = 0;  // above what is resident; 0: no order
  int64_t peak = 0;         // above what is resident
};

// Places in one device's memory (place_stage.h).
struct DevicePlaces {
  std::string device;
  PlacedStep step;
};

// What the devices of one step share: sizes and costs are those of the graph as it came.
struct StepFacts {
  StepFacts(const tensorflow::grappler::GrapplerItem& item, const Options& options)
      : dimensions(item, options), sizes(&dimensions), work(WorkForStep(options.planner_seconds)) {}

  Dimensions dimensions;
  TensorSizes sizes;
  bool inferred = false;
  WorkMeter work;                      // of all planning
  std::vector<std::string> in_pieces;  // devices of which what their allocator hands out counts
  std::vector<DevicePlaces> places;
  std::vector<Model> models;  // one for each plan that is not like another device's
};

// Counts what is planned, and how long that takes, in the step's meter and in the report.
class PlanAccount {
 public:
  // Both must outlive this.
  PlanAccount(WorkMeter* step, Report* report) : step_(*step), report_(*report) {}

  int64_t left() const { return step_.left(); }
  void Count(int64_t work) {
    step_.Add(work);
    report_.planner_work += work;
  }
  void TopUp(int64_t work) { step_.TopUp(work); }
  // What `plan` returns, with its time counted. Not to be nested.
  template <typename Function>
  auto Timed(const Function& plan) {
    const auto start = std::chrono::steady_clock::now();
    auto result = plan();
    report_.planner_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  WorkMeter& step_;
  Report& report_;
};

// The step as it came, of which the pass is given a variant (loop_pass.h).
struct StepAsItCame {
  ImportedGraph imported;
  MemoryProfile profile;
  RunRecord record;
};

// The references must outlive this.
struct DeviceContext {
  const Options& options;
  tensorflow::grappler::Cluster* cluster;  // may be null
  const tensorflow::grappler::GrapplerItem& item;
  int threads;         // inter-op
  std::string device;  // to be planned; "": the one that holds most
  StepFacts& facts;
  StageWatch& stages;
  PlanAccount& account;
  StepAsItCame* note_as_it_came = nullptr;   // filled in, unless it is null
  const StepAsItCame* as_it_came = nullptr;  // of a variant, which a plan is made of even where it fits; else null

  void Enter(const char* stage) const { stages.Enter(stage); }
  const Deadline& deadline() const { return stages.deadline(); }
  GraphBounds bounds() const { return GraphBounds(options.planner_seconds); }
};

}  // namespace lms

#endif  // LMS_CC_TF_PASS_DEVICE_CONTEXT_H_
