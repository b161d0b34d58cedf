// Places in a device's memory for what a rewritten step allocates, where a plan holds with them alone.

#ifndef LMS_CC_TF_PASS_PLACE_STAGE_H_
#define LMS_CC_TF_PASS_PLACE_STAGE_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/rewrite_stage.h"
#include "cc/tf/runtime/placed_memory.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// May tensors of the step be given places on its device? Where what the device has is the budget, and nothing is hidden
// that no figure includes: that needs what a plan leaves. The allocator's requests are seen to from then on
// (placed_memory.h).
bool MayPlace(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal);

// The places that the step was verified with; without tensors where it needs none.
PlacedStep PlacesOf(const RewrittenStep& rewritten);

// Ops have become parts of others, which ask for their memory now. `within`: by the name of the part.
void AskAsPartOf(const std::unordered_map<std::string, std::string>& within, PlacedStep* step);

// Gives them to the devices' allocators, and has the step tell whose they are. `graph` is what has become of the
// item's.
void PlaceSteps(const tensorflow::grappler::GrapplerItem& item, const std::vector<DevicePlaces>& places,
                const tensorflow::grappler::Cluster* cluster, tensorflow::GraphDef* graph);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_PLACE_STAGE_H_
