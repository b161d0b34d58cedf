#include "cc/tf/pass/place_stage.h"

#include <unordered_set>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/predict/device_arena.h"
#include "cc/tf/rewrite/places_node.h"
#include "cc/tf/stock/layout_fusions.h"
#include "tensorflow/core/util/util.h"

namespace lms {

bool MayPlace(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal) {
  const std::string& device = read.imported.device;
  if (!context.options.place || !goal.automatic() || read.arenas.empty() || !read.hidden.empty()) return false;
  if (PoolToBe(context.options, device))
    return context.options.pool_exact;  // for the plan alone: nothing runs in it here
  tensorflow::BFCAllocator* const chunks = ChunksOf(device, context.cluster);
  return chunks != nullptr && WhyNoPlaces(chunks).empty();
}

PlacedStep PlacesOf(const RewrittenStep& rewritten) {
  const Places& places = rewritten.verified.places;
  PlacedStep step;
  step.blocks = places.blocks;
  for (const Places::Entry& entry : places.entries) {
    const int node = rewritten.verified.imported.node_of_op[entry.what.op];
    step.tensors.push_back({rewritten.item.graph.node(node).name(), entry.bytes, entry.place});
  }
  return step;
}

void AskAsPartOf(const std::unordered_map<std::string, std::string>& within, PlacedStep* step) {
  for (PlacedStep::Tensor& tensor : step->tensors) {
    const auto found = within.find(tensor.op);
    if (found != within.end()) tensor.op = found->second;
  }
}

void PlaceSteps(const tensorflow::grappler::GrapplerItem& item, const std::vector<DevicePlaces>& places,
                const tensorflow::grappler::Cluster* cluster, tensorflow::GraphDef* graph) {
  for (const DevicePlaces& of_device : places) {
    tensorflow::BFCAllocator* const chunks = ChunksOf(of_device.device, cluster);
    GraphIndex index;
    if (chunks == nullptr || !index.Build(item.WithGraph(tensorflow::GraphDef(*graph))).ok()) continue;
    std::unordered_set<std::string> ops;
    for (const PlacedStep::Tensor& tensor : of_device.step.tensors) ops.insert(tensor.op);
    const Fusions fusions(*graph, tensorflow::IsMKLEnabled());
    AddPlacesNode(PlaceStep(chunks, of_device.step), of_device.device, ops, index, graph);
    fusions.Keep(graph);
  }
}

}  // namespace lms
