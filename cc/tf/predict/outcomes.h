// Which ops run together, by the outcomes of the predicates that decide about branches.
//
// A graph has all branches; a step takes one of each that exclude each other. Not every combination of outcomes is
// looked at: for each branch that makes much there is one in which it is taken, and with it, of all other predicates,
// the outcome that makes most.

#ifndef LMS_CC_TF_PREDICT_OUTCOMES_H_
#define LMS_CC_TF_PREDICT_OUTCOMES_H_

#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/import/import.h"

namespace lms {

struct Outcome {
  std::vector<bool> dead;           // per node: is it in a branch that is not taken?
  std::vector<bool> makes_nothing;  // per op: is it, or does it make zeros like nothing?
};

// One for each combination, and one at least; both lists are empty where all ops run. Linear in buffers, and in regions
// and nodes for each combination, of which there are a few.
std::vector<Outcome> FindOutcomes(const GraphIndex& index, const ImportedGraph& imported);

}  // namespace lms

#endif  // LMS_CC_TF_PREDICT_OUTCOMES_H_
