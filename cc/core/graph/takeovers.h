// Results that are put where rows of a larger tensor are: such a result holds all of that tensor's storage.
//
// An elementwise op may take over the storage of an input that nobody else holds any more. Where that input is a slice
// that shares its tensor's storage (cc/tf/sizes/row_slices.h), and the last one that is held, the result lies in the
// middle of it, and keeps all of it. Whose turn is last depends on the order of the ops, so what is found is for one
// order.
//
// Linear in the ops and their inputs.

#ifndef LMS_CC_CORE_GRAPH_TAKEOVERS_H_
#define LMS_CC_CORE_GRAPH_TAKEOVERS_H_

#include <cstdint>
#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// An op that might: its first output takes over the first input that will do.
struct Takeover {
  struct Input {
    BufferId buffer;
    bool rows;  // of a larger buffer
  };
  OpId op;
  int64_t bytes;              // of its output
  std::vector<Input> inputs;  // of that size, each read once by the op, in the order in which its kernel tries them
};

// Sets the sizes of the ops' outputs to what they hold when the ops begin in that order, and makes their inputs
// forwardable where they take rows over. `takeovers`: in an order in which each op follows those whose results it
// reads.
void ApplyTakeovers(const std::vector<Takeover>& takeovers, const std::vector<OpId>& order, MemGraph* graph);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_TAKEOVERS_H_
