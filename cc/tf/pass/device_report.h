// The report on one device of a step, made of what its stages give.

#ifndef LMS_CC_TF_PASS_DEVICE_REPORT_H_
#define LMS_CC_TF_PASS_DEVICE_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/report/report.h"
#include "cc/core/text/graph_dump.h"
#include "cc/tf/pass/candidates_stage.h"
#include "cc/tf/pass/device_context.h"
#include "cc/tf/pass/hint_notes.h"
#include "cc/tf/pass/measure_stage.h"
#include "cc/tf/pass/meet_budget.h"
#include "cc/tf/pass/read_stage.h"
#include "cc/tf/pass/shortfall.h"
#include "cc/tf/report/step_details.h"

namespace lms {

class DeviceReport {
 public:
  // Both must outlive this. What a stage gives is noted before the next one begins, as that may throw.
  DeviceReport(const DeviceContext& context, Report* report) : context_(context), report_(*report) {}

  void NoteRead(const ReadStep& read);
  void NotePrices(const Prices& prices);
  void NoteMeasured(const ReadStep& read, const MeasuredStep& measured);
  void NoteGoal(const AskedFor& asked);
  void NoteCandidates(const Candidates& candidates);
  // Writes what dump_graphs asks for. What goes wrong there is no reason to leave a step as it is.
  void Dump(const ImportedGraph& imported);

  // One of these comes last. The first two return false: the graph stays as it is.
  bool Skipped(const std::string& reason);
  bool Failed(const absl::Status& status);
  void Fits(const HintNotes& hints = {});
  // `worst`: what the step takes if iterations of its loops run ahead.
  void NothingToGain(const Candidates& candidates, const HintNotes& hints, int64_t worst);
  void Infeasible(const Candidates& candidates, const Shortfall& shortfall, const HintNotes& hints);
  void Rewritten(const ReadStep& read, const BudgetGoal& goal, const Candidates& candidates, const BudgetResult& result,
                 const HintNotes& hints);
  // And then, after all but the first two: the details, and the step that other budgets can be tried on. `candidates`:
  // where there are none, with the graph as it was read. `planned`: by default the graph in its own order.
  void Finish(Candidates candidates, const DevicePlan& planned = {});

 private:
  // The report's details: nothing that goes wrong with them is a reason to leave a step as it is.
  void Detail(const std::function<void()>& note);
  void Write(const std::function<std::string()>& write);
  GraphDump DumpFile() const { return {context_.options.dump_graphs, report_.function, report_.sequence}; }
  void AddWarnings(const std::vector<std::string>& warnings);
  void AddAssumption();  // to the reason
  void WarnOfOverlap(int64_t worst);

  const DeviceContext& context_;
  Report& report_;
  std::string hidden_;  // words on what no figure includes
  StepDetails details_;
  bool details_lost_ = false;
};

}  // namespace lms

#endif  // LMS_CC_TF_PASS_DEVICE_REPORT_H_
