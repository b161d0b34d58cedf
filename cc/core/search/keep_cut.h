// Which tensors of one computation to keep for another one that comes later, and which to compute again there.
//
// Of the forward body of a loop and its gradient: a tensor that is kept takes its bytes, an op that runs again takes
// its time, and what it reads must be kept or computed again, too. For a price of memory the cheapest choice is a
// minimum cut of a graph with two kinds of nodes: an op is on the sink's side where it runs again, a tensor where it is
// there. (Selection problems as cuts: Rhys, "A selection problem of shared fixed costs and network flows", 1970;
// Picard, "Maximal closure of a graph and applications to combinatorial problems", 1976.) All prices together give the
// lower convex hull of bytes against time.

#ifndef LMS_CC_CORE_SEARCH_KEEP_CUT_H_
#define LMS_CC_CORE_SEARCH_KEEP_CUT_H_

#include <vector>

namespace lms {

struct KeepProblem {
  struct Tensor {
    int producer = -1;     // an op; -1: nothing computes it again
    double bytes = 0;      // that keeping it takes; 0: it is there anyway
    bool keepable = true;  // otherwise it is only there where its producer runs again
  };
  struct Op {
    std::vector<int> inputs;  // tensors
    double cost_us = 0;
    bool recomputable = true;
  };
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<int> wanted;  // tensors that the later computation reads
};

struct KeepCut {
  std::vector<bool> kept;        // per tensor
  std::vector<bool> recomputed;  // per op
  double bytes = 0;
  double cost_us = 0;
};

// The corners of the hull: from the least time, which keeps all that is wanted, to the fewest bytes; at most `most` of
// them, the last one included. Empty where something that is wanted can be neither kept nor computed.
std::vector<KeepCut> KeepCuts(const KeepProblem& problem, int most);

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_KEEP_CUT_H_
