#include "cc/core/order/memory_order.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "cc/core/order/order_cut.h"
#include "cc/core/order/order_space.h"
#include "cc/core/order/order_starts.h"
#include "cc/core/order/order_stretch.h"
#include "cc/core/simulate/lower_bound.h"

namespace lms {
namespace {

constexpr int kWhole = 20000;        // ops up to which a cut is sought in all of the order
constexpr int kWindow = 2000;        // places on either side of an op in which it is sought in larger ones
constexpr int kMostFailures = 12;    // places that could not be relieved, one after the other, before giving up
constexpr int kLimits = 12;          // that the search for the least peak tries from each start
constexpr int kBoundPlaces = 8;      // parts of the order in which the bound is looked for
constexpr int64_t kTight = 1 << 16;  // a share of the peak: what is left between it and the bound is not worth a search

class Search {
 public:
  Search(const MemGraph& graph, int64_t work)
      : space_(graph), cutter_(space_), profile_(space_), trial_(space_), work_left_(work), work_(work) {
    given_.resize(graph.ops.size());
    std::iota(given_.begin(), given_.end(), 0);
    bound_ = LowerBoundBytes(graph) - space_.resident_bytes();
    best_ = order_ = given_;
    profile_.Compute(order_);
    best_peak_ = profile_.peak();
  }

  MemoryOrder ForLimit(int64_t limit_bytes) {
    const int64_t limit = limit_bytes - space_.resident_bytes();
    for (int start = 0; start < kStarts && best_peak_ > limit && bound_ <= limit; ++start) {
      if (!Start(start)) break;
      if (Relieve(limit, WorkFor(start))) break;
      if (start == 0) RaiseBound(limit);
    }
    return Result(limit);
  }

  MemoryOrder ForLeastPeak() {
    RaiseBound(std::numeric_limits<int64_t>::max());
    for (int start = 0; start < kStarts && !Tight(); ++start) {
      if (!Start(start)) break;
      const int64_t until = WorkFor(start);
      const std::vector<OpId> start_order = order_;
      double share = 0.9;  // of the way from the peak down to the bound
      for (int i = 0; i < kLimits && !Tight() && work_left_ > until; ++i) {
        const int64_t limit = best_peak_ - std::max<int64_t>(1, static_cast<int64_t>(share * (best_peak_ - bound_)));
        if (Relieve(limit, until)) continue;
        share /= 2;
        // Sometimes what was gained so far is in the way.
        Load(i % 2 == 0 ? start_order : best_);
        if (share * static_cast<double>(best_peak_) < static_cast<double>(best_peak_) / 2048) break;
      }
    }
    return Result(std::numeric_limits<int64_t>::max());
  }

 private:
  static constexpr int kStarts = 4;

  // The work that must be left after a start: each may use up half of what there is.
  int64_t WorkFor(int start) const { return start + 1 == kStarts ? 0 : work_left_ / 2; }

  bool Start(int start) {
    if (work_left_ < 4 * space_.sweep() && start > 0) return false;
    work_left_ -= 4 * space_.sweep();
    if (start == 0) Load(given_);
    if (start == 1) Load(LeastGrowthOrder(space_));
    if (start == 2) Load(OnDemandOrder(space_, false));
    if (start == 3) Load(OnDemandOrder(space_, true));
    return true;
  }

  void Load(const std::vector<OpId>& order) {
    order_ = order;
    work_left_ -= space_.sweep();
    profile_.Compute(order_);
    Note();
  }

  // What no order can do without: cuts at some ops, until the bound is above the limit. Ops at which much is in use are
  // good for that, and ops that leave little choice: nearly all others come before them or after them, like the loss.
  void RaiseBound(int64_t limit) {
    if (space_.size() > kWhole) return;
    FindPlaces();
    const int n = space_.size();
    const std::vector<int> related = Related();
    work_left_ -= 2 * space_.sweep();
    for (int part = 0; part < kBoundPlaces; ++part) {
      const int first = static_cast<int>(static_cast<int64_t>(n) * part / kBoundPlaces);
      const int last = static_cast<int>(static_cast<int64_t>(n) * (part + 1) / kBoundPlaces);
      if (first == last) continue;
      int highest = first;
      int strictest = first;
      for (int i = first; i < last; ++i) {
        if (profile_.bytes()[i] > profile_.bytes()[highest]) highest = i;
        if (std::make_pair(related[i], profile_.bytes()[i]) >
            std::make_pair(related[strictest], profile_.bytes()[strictest])) {
          strictest = i;
        }
      }
      for (const int i : {strictest, highest}) {
        if (Tight() || bound_ > limit || work_left_ < work_ / 2) return;
        if (profile_.bytes()[i] > bound_ || i == strictest) Cut(order_[i]);
      }
    }
  }

  // Per place: how many of some ops spread over the order come before or after that op in every order.
  std::vector<int> Related() const {
    const int n = space_.size();
    std::vector<uint64_t> ancestors(n, 0);
    std::vector<uint64_t> descendants(n, 0);
    for (int i = 0; i < 64; ++i) {
      const OpId op = n == 0 ? kNone : order_[static_cast<int64_t>(n) * i / 64];
      if (op != kNone) ancestors[op] = descendants[op] = ancestors[op] | uint64_t{1} << i;
    }
    for (const OpId op : order_) {
      for (const OpId dep : space_.before()[op]) ancestors[op] |= ancestors[dep];
    }
    std::vector<int> related(n, 0);
    for (int i = n - 1; i >= 0; --i) {
      for (const OpId other : space_.after()[order_[i]]) descendants[order_[i]] |= descendants[other];
      related[i] = static_cast<int>(std::bitset<64>(ancestors[order_[i]] | descendants[order_[i]]).count());
    }
    return related;
  }

  // Is there nothing left to gain?
  bool Tight() const { return best_peak_ - bound_ <= best_peak_ / kTight; }

  void FindPlaces() {
    place_.resize(order_.size());
    for (int i = 0; i < space_.size(); ++i) place_[order_[i]] = i;
  }

  OrderCut Cut(OpId op) {
    OrderCut cut = cutter_.Find(order_, place_, op, space_.size() <= kWhole ? space_.size() : kWindow,
                                std::max<int64_t>(0, work_left_));
    work_left_ -= cut.work;
    bound_ = std::max(bound_, cut.bound_bytes);
    return cut;
  }

  void Note() {
    if (profile_.peak() >= best_peak_) return;
    best_peak_ = profile_.peak();
    best_ = order_;
  }

  // Relieves places above the limit, highest first, until there is none (true) or nothing helps.
  bool Relieve(int64_t limit, int64_t until) {
    double excess = profile_.Excess(limit);
    std::vector<OpId> failed;
    while (profile_.peak() > limit) {
      if (work_left_ <= until || static_cast<int>(failed.size()) >= kMostFailures) return false;
      work_left_ -= 2 * space_.sweep();
      int at = -1;
      for (int i = 0; i < space_.size(); ++i) {
        const int64_t bytes = profile_.bytes()[i];
        if (bytes <= limit || (at >= 0 && bytes <= profile_.bytes()[at])) continue;
        if (std::find(failed.begin(), failed.end(), order_[i]) == failed.end()) at = i;
      }
      if (at < 0) return false;
      const OpId op = order_[at];
      FindPlaces();
      const OrderCut cut = Cut(op);
      if (bound_ > limit) return false;
      if (Apply(cut, at, limit, &excess) || Stretch(at, limit, &excess)) {
        failed.clear();
      } else {
        failed.push_back(op);
      }
    }
    return true;
  }

  // The order with the cut in it, in the best of a few ways; false if none of them helps.
  bool Apply(const OrderCut& cut, int at, int64_t limit, double* excess) {
    if (cut.postponed.empty() && cut.hastened.empty()) return false;
    double least = *excess;
    std::vector<OpId> found;
    for (const Far postponed : {kNear, kFar}) {
      for (const Far hastened : {kNear, kFar}) {
        if (postponed != kNear && cut.postponed.empty()) continue;
        if (hastened != kNear && cut.hastened.empty()) continue;
        Try(Moved(cut, at, postponed, hastened), limit, &least, &found);
      }
    }
    return Accept(found, least, excess);
  }

  enum Far { kNear, kFar };

  // The order with the ops of the cut moved to just before and after the op at `at`, or as far as they can go.
  std::vector<OpId> Moved(const OrderCut& cut, int at, Far postponed, Far hastened) const {
    // Sorted by place, side of it and old place.
    using Key = std::tuple<int, int, int>;
    std::vector<Key> keys(order_.size());
    std::vector<int> to(order_.size());
    for (int i = 0; i < space_.size(); ++i) {
      to[order_[i]] = i;
      keys[i] = {i, 0, i};
    }
    for (auto op = cut.postponed.rbegin(); op != cut.postponed.rend(); ++op) {
      int place = space_.size();
      for (const OpId other : space_.after()[*op]) place = std::min(place, to[other]);
      // Just before the first that needs it, or just after the op.
      to[*op] = postponed == kFar ? place : at;
      keys[place_[*op]] = {to[*op], postponed == kFar ? -1 : 1, place_[*op]};
    }
    for (const OpId op : cut.hastened) {
      int place = -1;
      for (const OpId other : space_.before()[op]) place = std::max(place, to[other]);
      to[op] = hastened == kFar ? place : at;
      keys[place_[op]] = {to[op], hastened == kFar ? 1 : -1, place_[op]};
    }
    std::vector<int> places(order_.size());
    std::iota(places.begin(), places.end(), 0);
    std::sort(places.begin(), places.end(), [&keys](int a, int b) { return keys[a] < keys[b]; });
    std::vector<OpId> order(order_.size());
    for (size_t i = 0; i < places.size(); ++i) order[i] = order_[places[i]];
    return order;
  }

  // Schedules a stretch around the place anew: a short one first.
  bool Stretch(int at, int64_t limit, double* excess) {
    for (const int length : {16, 64, 256}) {
      if (work_left_ < 0) return false;
      double least = *excess;
      std::vector<OpId> found;
      const int first = std::max(0, at - length / 2);
      const int last = std::min(space_.size() - 1, at + length / 2);
      StretchOrder stretch = ReorderStretch(space_, order_, place_, first, last);
      work_left_ -= stretch.work + 2 * space_.sweep();
      Try(std::move(stretch.order), limit, &least, &found);
      if (Accept(found, least, excess)) return true;
    }
    return false;
  }

  void Try(std::vector<OpId> order, int64_t limit, double* least, std::vector<OpId>* found) {
    work_left_ -= 4 * space_.sweep();
    trial_.Compute(order);
    const double excess = trial_.Excess(limit);
    if (excess >= *least) return;
    *least = excess;
    *found = std::move(order);
  }

  bool Accept(const std::vector<OpId>& order, double least, double* excess) {
    if (order.empty()) return false;
    *excess = least;
    Load(order);
    return true;
  }

  MemoryOrder Result(int64_t limit) {
    MemoryOrder result;
    result.changed = best_ != given_;
    result.order = std::move(best_);
    result.peak_bytes = best_peak_ + space_.resident_bytes();
    result.bound_bytes = std::min(bound_, best_peak_) + space_.resident_bytes();
    result.feasible = best_peak_ <= limit;
    result.work = work_ - work_left_;
    return result;
  }

  OrderSpace space_;
  OrderCutter cutter_;
  std::vector<OpId> given_;
  std::vector<OpId> order_;  // at hand
  OrderProfile profile_;     // of it
  OrderProfile trial_;
  std::vector<int> place_;  // inverse of order_
  std::vector<OpId> best_;
  int64_t best_peak_ = 0;
  int64_t bound_ = 0;  // no order has a lower peak
  int64_t work_left_;
  int64_t work_;
};

}  // namespace

MemoryOrder OrderForLimit(const MemGraph& graph, int64_t limit_bytes, int64_t work) {
  return Search(graph, work).ForLimit(limit_bytes);
}

MemoryOrder OrderForLeastPeak(const MemGraph& graph, int64_t work) { return Search(graph, work).ForLeastPeak(); }

}  // namespace lms
