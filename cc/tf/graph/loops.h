// Loops as memory sees them: what changes from one iteration to the next, whether iterations may overlap, and which
// region may be planned.
//
// In the simulation a loop counts as one of its iterations, in the middle: what the iteration before made is there when
// it begins, and what it makes for the next one is held to its end. That is right as long as one iteration ends before
// the next one begins. Where TensorFlow lowers a loop with side effects it sees to that: each NextIteration waits for
// all of them. Elsewhere the counter may run ahead, up to parallel_iterations of the loop.
//
// Built once per graph, then read-only. Linear in nodes and edges, for each of the loops that one is nested in, and for
// each outcome of a predicate in it.

#ifndef LMS_CC_TF_GRAPH_LOOPS_H_
#define LMS_CC_TF_GRAPH_LOOPS_H_

#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace lms {

bool IsEnter(const tensorflow::NodeDef& node);
// An Enter whose value arrives in each iteration, and is held to the end of the loop.
bool IsConstantEnter(const tensorflow::NodeDef& node);
bool IsExit(const tensorflow::NodeDef& node);
bool IsNextIteration(const tensorflow::NodeDef& node);

// On the LoopCond of a loop that lms adds: how often it goes round, at most.
inline constexpr char kMostTripsAttr[] = "_lms_most_trips";

class Loops {
 public:
  // `index` belongs to the graph; both must outlive this.
  Loops(const tensorflow::GraphDef& graph, const GraphIndex& index);

  // Of a loop's Enter, Merge or Exit: may the variable have another value in the next iteration? False for what is
  // handed through as it is, and for all other nodes.
  bool Changes(int node) const { return changes_[node]; }

  // May the node, in a loop, still run when the next iteration has begun? So may the last readers of what it reads.
  bool Straggles(int node) const { return straggles_[node]; }

  // Could it be kept from that, by letting the next iteration wait for it?
  bool MayBeHeld(int node) const;

  // Lets the next iteration of the loop wait for what straggles there and may be held. Adds no edge: Holds() says which
  // ones make it true. Frame 0 is no loop. Does nothing where results depend on the overlap.
  void HoldIterations(int frame);
  struct Hold {
    int node;
    int gate;  // the NextIteration that is to wait for it
  };
  const std::vector<Hold>& Holds() const { return holds_; }

  // The nodes of the loop, and of the loops within it, in order.
  const std::vector<int>& NodesIn(int frame) const { return nodes_in_[frame]; }

  // The NextIteration nodes that must have run before the loop can go on: what one of them waits for ends before the
  // next iteration begins.
  const std::vector<int>& Gates(int frame) const { return gates_[frame]; }

  // Does how far iterations of the loop, or of one around it, run ahead decide what it computes? So it does where
  // nothing says which of them draws first from a kernel's own sequence of random numbers, and where a sum, whose order
  // depends on who else holds its terms, adds up something that the loop holds, too: one that may run late what the
  // next iteration holds, or one outside what enters the loop, and is let go of as soon as all iterations have run. Any
  // change in the loop might change that.
  bool DependsOnOverlap(int frame) const;

  // May it be planned: does it run only when its loops go on, and not depend on their overlap? Nodes of it that
  // straggle are left alone.
  bool MayBePlanned(int region) const;

 private:
  // Marks the nodes of the loop that have run when any of `ends` does, in each iteration: from which an edge leads to
  // it within one, whatever branches it takes. What only some branch reads need not have run where another one is
  // taken.
  void MarkBefore(const std::vector<int>& ends, int frame);
  // The outcomes of predicates in the loop that decide about branches; none where there are too many to look at.
  std::vector<Condition> OutcomesIn(int frame) const;
  // Marks those from which an edge leads to any of `ends`, where the predicate has this outcome (null: whatever it is).
  void MarkWhere(const Condition* outcome, const std::vector<int>& ends, int frame);
  // Is the node in a branch that is not taken then?
  bool Excludes(const Condition* outcome, int node) const;
  // Is it a sum whose order may depend on who else holds its terms?
  bool MindsHolders(int sum) const;
  // All that read a term of it, or what that shares its storage with.
  std::vector<int> ReadersOfTerms(int sum) const;
  // The loops whose results depend on the overlap. Needs who straggles from the start.
  void FindThoseThatDependOnOverlap();
  bool Marked(int node) const { return marked_[node] == mark_; }
  void FindStragglers();
  std::vector<int> FindGates(int frame);

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  std::vector<bool> changes_;
  std::vector<bool> straggles_;
  std::vector<bool> by_overlap_;  // per frame: without those around it, see DependsOnOverlap()
  std::vector<Hold> holds_;
  std::vector<std::vector<int>> gates_;     // per frame
  std::vector<std::vector<int>> nodes_in_;  // per frame; none of frame 0
  std::vector<int> marked_;                 // per node: by which MarkBefore() it was last
  int mark_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_LOOPS_H_
