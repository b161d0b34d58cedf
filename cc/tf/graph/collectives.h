// Collective operations (CollectiveReduceV2 and its kin) whose parts on several devices are all in one graph: what
// MirroredStrategy makes of a training step.
//
// A part ends only when all parts of its instance have begun, which no edge of the graph shows. The keys that say which
// parts belong together are known to the run alone; but the parts of one device run in one order, the same on all
// devices, as the runtime itself demands. So the first of each device belong together, and so on.
//
// Parts in branches that exclude each other (sparse gradients are gathered with padding in one branch and without in
// the other) need no order between them: at most one of the two runs. Each other two of a device have one. Those of one
// region are a chain, as they run together; so how many of each chain come before a part says all about its order.
//
// An order of the whole graph in which each part comes after all that any part of its instance depends on, and before
// all that depends on any of them (AddBarriers), can be enforced by edges between nodes of one device: with the edges
// of the graph and the hidden ones they close no cycle. On a way of such edges out of one part and into another one,
// the first edge into another device is the graph's own: its end, or what it came from, would be on the wrong side of
// the instance.

#ifndef LMS_CC_TF_GRAPH_COLLECTIVES_H_
#define LMS_CC_TF_GRAPH_COLLECTIVES_H_

#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

struct Collectives {
  // Nodes, one for each device (of this process). An instance stands after all that the graph has before it.
  std::vector<std::vector<int>> instances;
  // Per instance: of each chain whose parts may run together with it, the last instance before it, as an index of the
  // above, rising. With the chains they tell the order of each two that may run together.
  std::vector<std::vector<int>> last_before;
  std::string problem;  // why the parts cannot be told apart; there are no instances then
};

// A part, and one before it on its device.
struct CollectiveWait {
  int node;
  int waits_for;
};

// Live ones of a kind that has keys as inputs. Linear in the graph for each device and region that has any.
Collectives FindCollectives(const tensorflow::GraphDef& graph, const GraphIndex& index);

// Is it of such a kind?
bool IsCollective(const std::string& op_type);

// What keeps the parts of each device in their order whatever becomes of the nodes between two of them: their order may
// rest on a control edge to a node that a copy takes the place of. For a part in a branch also what comes before it
// outside. What comes after a branch waits for the Merge, with whose edges no rewrite meddles. Other processes count on
// that order: with it none of them can wait for ever, whatever plans they have (docs/distributed.md).
std::vector<CollectiveWait> CollectiveWaits(const Collectives& collectives, const GraphIndex& index);

// Do both have the same instances, and each two that may run together in the same order? Of one graph before and after
// a rewrite: nodes stand where they stood.
bool SameOrder(const Collectives& a, const Collectives& b);

// Lets all parts of an instance wait for whatever one of them waits for, and who waits for one for all. `op_of_node`:
// kNone for nodes that are no op.
void AddBarriers(const Collectives& collectives, const std::vector<OpId>& op_of_node, MemGraph* graph);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_COLLECTIVES_H_
