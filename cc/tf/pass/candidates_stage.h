// What a plan may do to the step. Which regions are planned, where tensors may be swapped to, and what the
// user has said of them.

#ifndef LMS_CC_TF_PASS_CANDIDATES_STAGE_H_
#define LMS_CC_TF_PASS_CANDIDATES_STAGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/graph/swap_target.h"
#include "cc/core/search/hinted_plan.h"
#include "cc/tf/import/hints.h"
#include "cc/tf/import/import.h"
#include "cc/tf/pass/budget.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/swap_choice.h"

namespace lms {

struct Candidates {
  absl::Status status;  // else nothing is of use
  // With all regions planned that are above the limit, and iterations of loops kept apart where that matters.
  ImportedGraph imported;
  bool imported_again = false;  // it is not what was read
  ChosenSwap swap;              // where tensors may go, and over which link
  SwapTarget target;
  Hints hints;
  std::vector<std::string> warnings;

  // Do hints change a plan by themselves?
  bool Hinted() const { return !hints.empty() && HasEvictionHints(imported.graph); }
};

// Why nothing of the step may be planned: an op that waits for others in ways that no edge shows. "": it may be. Throws
// TooMuch for a graph that is too large.
std::string WhyNotPlanned(const DeviceContext& context, const ReadStep& read);

// Stage "import", again, where that makes another graph. `imported` is that of `read`, with the ops' costs.
Candidates ImportCandidates(const DeviceContext& context, const ReadStep& read, const BudgetGoal& goal,
                            ImportedGraph imported);

// Stage "swap", where swapping is allowed, and hints: the rest of the candidates, marked in the imported graph.
void FindCandidates(const DeviceContext& context, const ReadStep& read, Candidates* candidates);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_CANDIDATES_STAGE_H_
