// Time on the link that swaps have been promised: what a planner asks before it swaps one more buffer.
//
// The step's clock is that of its ops, one after the other, as they came. A swap-out is given the first free time after
// its buffer's last use, a swap-in the last free time before its next one, each on its lane (swap_link.h); what does
// not fit between its two ends is a stall. Promises may be given back, and taken again exactly as they were. Each call
// is O(log n) and linear in the stretches of promised time that it passes over; promises that meet are one stretch, so
// that a link with little time left is no slower to ask than an empty one.

#ifndef LMS_CC_CORE_SEARCH_LINK_TIME_H_
#define LMS_CC_CORE_SEARCH_LINK_TIME_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/swap_link.h"

namespace lms {

class LinkTime {
 public:
  using Span = std::pair<double, double>;  // of a lane's time: begin, end; microseconds
  struct Promise {
    bool out = false;
    std::vector<Span> spans;
    double stall_us = 0;  // that the ops must wait
    int passed = 0;       // stretches of time that were looked at
  };

  LinkTime(const MemGraph& graph, const SwapLink& link);

  const SwapLink& link() const { return link_; }

  // A swap-out that may begin when op `from` has run (`from` kNone: with the step). With `by` kNone it takes the time
  // that it needs; otherwise it is done when op `by` has run, stalled if need be. *done is the op by whose end it is
  // done (the last one if it is never done in time): of what is not queued, `by`, where that is given.
  Promise Out(int64_t bytes, OpId from, OpId by, OpId* done) const;

  // A swap-in that has ended when op `before` begins. With `at` kNone it takes the time that it needs, not before op
  // `not_before` begins, and *begin is the op before which it begins; otherwise it begins before op `at`.
  Promise In(int64_t bytes, OpId before, OpId at, OpId not_before, OpId* begin) const;

  void Take(const Promise& promise);
  void GiveBack(const Promise& promise);

 private:
  using Lane = std::map<double, double>;  // promised time, by its begin; stretches neither overlap nor meet

  double BeginOf(OpId op) const { return begin_us_[op]; }
  double EndOf(OpId op) const { return op == kNone ? 0 : begin_us_[op + 1]; }
  // By whose end a transfer has been handed over that could be when the op has run.
  OpId Behind(OpId op) const { return link_.queues() ? std::min(op + 1, static_cast<OpId>(begin_us_.size()) - 2) : op; }
  bool Queued(int64_t bytes) const { return bytes > link_.queued_above; }
  static double Length(const Span& span) { return span.second - span.first; }
  // Adds the span, unless it is none; how long it is.
  double Promised(const Span& span, Promise* promise) const;
  const Lane& LaneOf(bool out) const { return out || link_.one_lane() ? out_lane_ : in_lane_; }

  SwapLink link_;
  std::vector<double> begin_us_;  // per op, and the end of the step
  double least_us_ = 0;           // shorter spans are none
  Lane out_lane_;                 // of both directions where they share one
  Lane in_lane_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_LINK_TIME_H_
