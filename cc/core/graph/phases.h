// Forward pass, backward pass, update of the variables: to which of them does each op of a step belong?
//
// By names, where TensorFlow's automatic differentiation has left its own (a part "gradient_tape", or one that begins
// with "gradients"). Those ops are the backward pass, and so is what leads from one of them to another. What else is
// computed from them belongs to the update, and so do ops that change a variable and wait for the backward pass, and
// what only the update reads (a learning rate).
//
// Where no op has such a name, by dependency: the backward pass then is what leads to an update and depends on the last
// op that reads a trained variable for the first time, less what leads to a result. It begins an op or two early: with
// the last layer's. A step that changes no variable, or whose variables nothing else depends on, is all forward.
//
// Of use for pictures and words alone. O(ops + reads).

#ifndef LMS_CC_CORE_GRAPH_PHASES_H_
#define LMS_CC_CORE_GRAPH_PHASES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

enum class Phase : uint8_t { kForward, kBackward, kUpdate };

inline constexpr const char* kPhaseNames[] = {"forward", "backward", "update"};

// Does the name say that automatic differentiation has made the op?
bool IsGradientName(std::string_view name);

// Per op. `graph` is in execution order.
std::vector<Phase> PhasesOf(const MemGraph& graph);

}  // namespace lms

#endif  // LMS_CC_CORE_GRAPH_PHASES_H_
