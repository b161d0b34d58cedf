// The details of a report: every op and every large buffer of the step, before and after, in columns.
//
// Positions number the ops in the order of the report's timelines, from 0. At each position the bytes of the buffers
// that are held there add up to the bytes in use, but for what is left out: small buffers, where there are more than
// kMostBuffers. Names are those of the graph as it came: what a recomputation or a swap-in makes is an instance of the
// buffer that it makes again, and has an interval of its own there.

#ifndef LMS_CC_CORE_REPORT_REPORT_DETAILS_H_
#define LMS_CC_CORE_REPORT_REPORT_DETAILS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/phases.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/simulate/run_record.h"

namespace lms {

inline constexpr size_t kMostBuffers = 20000;

enum class OpKind : uint8_t { kRun, kRecompute, kMove, kSwapOut, kSwapIn };
enum class Role : uint8_t { kActivation, kGradient, kWeight, kConstant, kArgument, kResult, kScratch, kOther };
enum class Fate : uint8_t { kKept, kRecomputed, kMoved, kSwapped, kResident };

inline constexpr const char* kOpKindNames[] = {"run", "recompute", "move", "swap_out", "swap_in"};
inline constexpr const char* kRoleNames[] = {"activation", "gradient", "weight",  "constant",
                                             "argument",   "result",   "scratch", "other"};
inline constexpr const char* kFateNames[] = {"kept", "recomputed", "moved", "swapped", "resident"};

// Positions, both inclusive.
using Interval = std::array<int32_t, 2>;

// One entry per position.
struct StepColumns {
  std::vector<int32_t> op;  // number of a string, as are types, names and reasons
  std::vector<int32_t> type;
  std::vector<OpKind> kind;
  std::vector<Phase> phase;
  std::vector<double> start_us;  // with the ops one after the other and swaps beside them, as they are priced
  std::vector<double> took_us;
  std::vector<int64_t> bytes;
};

// One entry per buffer, the largest first.
struct BufferColumns {
  std::vector<int32_t> name;
  std::vector<int32_t> type;  // of the op that makes it
  std::vector<int64_t> bytes;
  std::vector<Role> role;
  std::vector<Fate> fate;
  std::vector<int32_t> reason;
  std::vector<double> cost_us;  // added time
  std::vector<std::vector<Interval>> before;
  std::vector<std::vector<Interval>> after;
};

struct ReportDetails {
  std::vector<std::string> strings;
  StepColumns before;
  StepColumns after;  // empty where nothing was rewritten
  BufferColumns buffers;
  int32_t peak_before = 0;
  int32_t peak_after = kNone;
  int64_t omitted_buffers = 0;  // of the step as it came
  int64_t omitted_bytes = 0;

  // That it takes itself, roughly.
  int64_t MemoryBytes() const;
};

// One side of the step, as it is to be shown.
struct ShownOp {
  std::string_view name;
  std::string_view type;
  OpKind kind = OpKind::kRun;
  Phase phase = Phase::kForward;
};

struct ShownBuffer {
  std::string_view name;
  std::string_view type;
  Role role = Role::kOther;
};

struct ShownStep {
  const MemGraph& graph;
  const MemoryProfile& profile;
  const RunRecord& record;
  std::vector<ShownOp> ops;          // per op of the graph
  std::vector<ShownBuffer> buffers;  // per buffer
};

// Puts the two sides together. One object per report: first Before(), then After() where there is one, then fates.
class DetailsMaker {
 public:
  DetailsMaker() : details_(std::make_unique<ReportDetails>()) {}

  void Before(const ShownStep& step);
  void After(const ShownStep& step);
  bool started() const { return !details_->before.op.empty(); }

  // The phase of the op of that name in the step as it came; forward where there is none.
  Phase PhaseOf(std::string_view op) const;
  bool HeldAtPeakBefore(std::string_view buffer) const;

  // Nothing for buffers that take no memory.
  void SetFate(std::string_view buffer, Fate fate, std::string_view reason, double cost_us);
  // For those without a fate so far.
  void SetReason(std::string_view buffer, std::string_view reason);

  std::shared_ptr<const ReportDetails> Finish();

 private:
  struct Row {
    ShownBuffer shown;  // its views are those of strings_
    int64_t bytes = 0;
    Fate fate = Fate::kKept;
    std::string_view reason;
    double cost_us = 0;
    std::vector<Interval> before;
    std::vector<Interval> after;
  };

  int32_t Number(std::string_view text);
  int32_t Known(std::string_view text) const;  // kNone where it has no number
  std::string_view Keep(std::string_view text) { return texts_[Number(text)]; }
  int32_t Columns(const ShownStep& step, StepColumns* columns);
  Row& RowOf(const ShownStep& step, const Holding& holding);
  Row& RowNamed(const ShownBuffer& shown);
  Row* Find(std::string_view buffer);
  const Row* Find(std::string_view buffer) const;

  std::deque<std::string> texts_;  // do not move, so that views of them stay valid
  std::unordered_map<std::string_view, int32_t> numbers_;
  std::vector<int32_t> row_of_;  // per number, as the next; kNone for what is no buffer
  std::vector<Phase> phase_of_;
  std::vector<Row> rows_;
  int64_t least_bytes_ = 0;  // what is smaller is not even looked at
  std::unique_ptr<ReportDetails> details_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_REPORT_REPORT_DETAILS_H_
