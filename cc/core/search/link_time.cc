#include "cc/core/search/link_time.h"

#include <algorithm>
#include <iterator>

namespace lms {
namespace {

constexpr double kLeastUs = 1e-6;  // shorter spans are none
// Of the step. What is left of a transfer can be too little to change the time it would be added to, for ever.
constexpr double kLeastShare = 1e-14;

}  // namespace

LinkTime::LinkTime(const MemGraph& graph, const SwapLink& link) : link_(link) {
  begin_us_.reserve(graph.ops.size() + 1);
  double now = 0;
  for (const MemOp& op : graph.ops) {
    begin_us_.push_back(now);
    now += op.cost_us;
  }
  begin_us_.push_back(now);
  least_us_ = std::max(kLeastUs, now * kLeastShare);
}

double LinkTime::Promised(const Span& span, Promise* promise) const {
  if (Length(span) <= least_us_) return 0;
  promise->spans.push_back(span);
  return Length(span);
}

LinkTime::Promise LinkTime::Out(int64_t bytes, OpId from, OpId by, OpId* done) const {
  const Lane& lane = LaneOf(true);
  Promise promise;
  promise.out = true;
  double left = link_.OutUs(bytes);
  double now = EndOf(Behind(from));
  const double end = by == kNone ? begin_us_.back() : EndOf(by);
  auto next = lane.upper_bound(now);
  if (next != lane.begin()) now = std::max(now, std::prev(next)->second);
  if (Queued(bytes)) {
    Span longest(now, now);
    while (now < end && Length(longest) < left - least_us_) {
      ++promise.passed;
      const Span free(now, std::min({end, next == lane.end() ? end : next->first, now + left}));
      if (Length(free) > Length(longest)) longest = free;
      if (next == lane.end()) break;
      now = (next++)->second;
    }
    left -= Promised(longest, &promise);
    now = end;
  }
  while (left > least_us_ && now < end) {
    ++promise.passed;
    const double until = std::min({end, next == lane.end() ? end : next->first, now + left});
    if (until - now > least_us_) {
      promise.spans.emplace_back(now, until);
      left -= until - now;
    }
    now = until;
    if (next != lane.end() && now >= next->first - least_us_) {
      now = next->second;
      ++next;
    }
  }
  promise.stall_us = left > least_us_ ? left : 0;
  if (done != nullptr) {
    const double ends = promise.spans.empty() ? EndOf(from) : promise.spans.back().second;
    const auto after = std::lower_bound(begin_us_.begin() + 1, begin_us_.end(), ends - least_us_);
    *done =
        static_cast<OpId>(std::min<int64_t>(after - begin_us_.begin() - 1, static_cast<int64_t>(begin_us_.size()) - 2));
    *done = std::max(*done, from + 1);
    // Those that are queued go out in the order of the ops that wait for them.
    if (by != kNone && (!Queued(bytes) || promise.stall_us > 0)) *done = by;
  }
  return promise;
}

LinkTime::Promise LinkTime::In(int64_t bytes, OpId before, OpId at, OpId not_before, OpId* begin) const {
  const Lane& lane = LaneOf(false);
  Promise promise;
  double left = link_.InUs(bytes);
  double now = BeginOf(before);
  const double first = std::min(now, EndOf(Behind((at != kNone ? at : not_before) - 1)));
  auto next = lane.lower_bound(now);  // the promise before it is std::prev
  if (Queued(bytes)) {
    Span longest(now, now);
    while (now > first && Length(longest) < left - least_us_) {
      ++promise.passed;
      const bool any = next != lane.begin();
      const double taken_until = any ? std::min(std::prev(next)->second, now) : first;
      const Span free(std::max({first, taken_until, now - left}), now);
      if (Length(free) > Length(longest)) longest = free;
      if (!any) break;
      now = std::min(now, (--next)->first);
    }
    left -= Promised(longest, &promise);
    now = first;
  }
  while (left > least_us_ && now > first) {
    ++promise.passed;
    const bool any = next != lane.begin();
    const double taken_until = any ? std::prev(next)->second : first;
    const double from = std::max({first, std::min(taken_until, now), now - left});
    if (now - from > least_us_) {
      promise.spans.emplace_back(from, now);
      left -= now - from;
    }
    now = from;
    if (any && now <= taken_until + least_us_) {
      --next;
      now = next->first;
    }
  }
  promise.stall_us = left > least_us_ ? left : 0;
  if (begin != nullptr) {
    const double begins = promise.spans.empty() ? BeginOf(before) : promise.spans.back().first;
    const auto after = std::upper_bound(begin_us_.begin(), begin_us_.end(), begins + least_us_);
    const OpId last = static_cast<OpId>(after - begin_us_.begin()) - (link_.queues() ? 2 : 1);
    *begin = at != kNone ? at : std::max(not_before, last);
    *begin = std::min(*begin, before);
  }
  return promise;
}

void LinkTime::Take(const Promise& promise) {
  Lane& lane = promise.out || link_.one_lane() ? out_lane_ : in_lane_;
  for (auto [begin, end] : promise.spans) {
    // What it meets without a gap becomes one stretch with it.
    auto next = lane.lower_bound(begin);
    if (next != lane.begin() && std::prev(next)->second == begin) {
      --next;
      begin = next->first;
      next = lane.erase(next);
    }
    if (next != lane.end() && next->first == end) {
      end = next->second;
      next = lane.erase(next);
    }
    lane.emplace_hint(next, begin, end);
  }
}

void LinkTime::GiveBack(const Promise& promise) {
  Lane& lane = promise.out || link_.one_lane() ? out_lane_ : in_lane_;
  for (const auto& [begin, end] : promise.spans) {
    auto stretch = lane.upper_bound(begin);
    if (stretch == lane.begin()) continue;
    --stretch;
    const auto [first, last] = *stretch;
    if (last < end) continue;
    lane.erase(stretch);
    if (first < begin) lane.emplace(first, begin);
    if (end < last) lane.emplace(end, last);
  }
}

}  // namespace lms
