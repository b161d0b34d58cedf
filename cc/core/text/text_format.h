// Graphs and plans as text (docs/graph-format.md), so that they can be kept, compared, and made by other programs.
//
// Reading takes any bytes: what is wrong is returned as "FILE:LINE: reason", never thrown. Writing is canonical: equal
// graphs give the same bytes, and what was written reads as an equal graph. Equal means the same normal form:
//   - buffers are numbered in order of appearance: first those without a producer, then each op's outputs;
//   - an op waits for the producers of what it reads or overwrites, beside what `deps` says; deps are sorted;
//   - a buffer may be evicted only where its producer may be recomputed;
//   - reasons stand only where they say something: why not evictable, why not recomputable;
//   - what is read or overwritten around a loop, and made by a later op only, is left out: simulators see no memory
//     in it.
// Reading and writing take time linear in the text, but for sorting each op's own list of deps.

#ifndef LMS_CC_CORE_TEXT_TEXT_FORMAT_H_
#define LMS_CC_CORE_TEXT_TEXT_FORMAT_H_

#include <string>
#include <string_view>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"

namespace lms {

// The normal form of a valid graph in execution order.
MemGraph NormalForm(MemGraph graph);

struct GraphReadOptions {
  bool sort = false;  // ops may stand in any order and are put in execution order (schedule.h)
};

// "" and a valid graph in normal form, or what is wrong (*graph is left alone then). `file` is a name for messages.
std::string ReadGraph(std::string_view text, const std::string& file, const GraphReadOptions& options, MemGraph* graph);

// The graph is valid and in execution order, and names are unique among ops and among buffers.
std::string WriteGraph(const MemGraph& graph);

// "" and a plan whose steps are sorted and provide outputs of their ops, or what is wrong. Whether the plan is sound is
// ValidatePlan's question. `graph` is in normal form.
std::string ReadPlan(std::string_view text, const std::string& file, const MemGraph& graph, Plan* plan);

// The graph's names are unique; the plan's steps are in range.
std::string WritePlan(const MemGraph& graph, const Plan& plan);

}  // namespace lms

#endif  // LMS_CC_CORE_TEXT_TEXT_FORMAT_H_
