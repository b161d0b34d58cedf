// What came of the user's hints, and what they cost, beside plans without them.

#ifndef LMS_CC_TF_PASS_HINT_NOTES_H_
#define LMS_CC_TF_PASS_HINT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/report/report.h"
#include "cc/core/search/restraint.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"

namespace lms {

struct HintNotes {
  std::vector<HintReport> hints;  // in the order of their groups
  std::vector<std::string> warnings;
};

// `graph`: as it was planned. With a limit (bytes, resident included; 0: none) each hint is priced beside a plan for it
// without the hint.
HintNotes DescribeHints(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                        const MemGraph& graph, const Restraint& restraint, int64_t limit);

// "lms.recompute (dense), lms.swap (conv) and 2 more": those that ask for changes.
std::string HintsThatChange(const Hints& hints);

// Of a budget that cannot be met: which hints would have to go for it, as words to follow others; "" where it is not
// for them.
std::string HintsInTheWay(const DeviceContext& context, const BudgetGoal& goal, const Candidates& candidates,
                          const Restraint& restraint);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_HINT_NOTES_H_
