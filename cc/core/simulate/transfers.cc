#include "cc/core/simulate/transfers.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "cc/core/graph/walk.h"

namespace lms {
namespace {

constexpr double kNothingUs = 1e-6;
constexpr double kNever = std::numeric_limits<double>::infinity();

// One transfer, by place in the order of ops: 2 * op before it runs, 2 * op + 1 after it.
struct Job {
  bool out = false;
  int index = 0;       // in the plan's list
  int wanted = 0;      // place that waits for its end
  double left_us = 0;  // of what it takes
  bool queued = false;
  double ends = kNever;
};

// Jobs of one lane, one at a time, always the most urgent of those that are there: they are moved in small pieces. Of
// those that are queued, the one that came first, when no other is there.
class Lane {
 public:
  explicit Lane(std::vector<Job>* jobs) : jobs_(*jobs) {}

  void Arrive(int job) {
    const bool queued = jobs_[job].queued;
    waiting_.insert({queued, queued ? arrived_++ : jobs_[job].wanted, job});
  }

  // Lets time pass until `now`.
  void Advance(double now) {
    while (now_ < now && !waiting_.empty()) Move(now - now_);
    now_ = std::max(now_, now);
  }

  // When the job, which is there, has ended: no other one arrives until then.
  double EndOf(int job) {
    while (jobs_[job].ends == kNever) Move(kNever);
    return jobs_[job].ends;
  }

 private:
  void Move(double most_us) {
    Job& job = jobs_[std::get<2>(*waiting_.begin())];
    const double us = std::min(most_us, job.left_us);
    now_ += us;
    job.left_us -= us;
    if (job.left_us > kNothingUs) return;
    job.ends = now_;
    waiting_.erase(waiting_.begin());
  }

  std::vector<Job>& jobs_;
  std::set<std::tuple<bool, int, int>> waiting_;  // (queued, its number or where it is wanted, job)
  int arrived_ = 0;                               // of those that are queued
  double now_ = 0;
};

class Run {
 public:
  Run(const MemGraph& graph, const Plan& plan, const SwapLink& link)
      : graph_(graph), plan_(plan), link_(link), out_lane_(&jobs_), in_lane_(&jobs_) {
    out_job_.assign(graph.buffers.size(), kNone);
    in_job_.assign(graph.buffers.size(), kNone);
    result_.out_stall_us.assign(plan.swap_outs.size(), 0);
    result_.in_stall_us.assign(plan.swap_ins.size(), 0);
    for (size_t i = 0; i < plan.swap_outs.size(); ++i) {
      const SwapOut& swap = plan.swap_outs[i];
      const int64_t bytes = graph.buffers[swap.buffer].bytes;
      out_job_[swap.buffer] = static_cast<int>(jobs_.size());
      jobs_.push_back({true, static_cast<int>(i), 2 * swap.by + 1, link.OutUs(bytes), bytes > link.queued_above});
      result_.out_bytes += bytes;
    }
    first_in_ = static_cast<int>(jobs_.size());
    for (size_t i = 0; i < plan.swap_ins.size(); ++i) {
      const SwapIn& swap = plan.swap_ins[i];
      const int64_t bytes = graph.buffers[swap.buffer].bytes;
      jobs_.push_back({false, static_cast<int>(i), FirstUse(swap), link.InUs(bytes), bytes > link.queued_above});
      result_.in_bytes += bytes;
    }
    for (const Job& job : jobs_) result_.transfer_us += job.left_us;
    result_.compute_us = link.compute_us_per_byte * static_cast<double>(result_.out_bytes + result_.in_bytes);
  }

  Transfers Simulate() {
    Walk(graph_, plan_, [this](const PlanEvent& event) {
      if (event.kind == PlanEvent::Kind::kSwapIn) BeginIn(event.index);
      if (event.Runs()) Execute(OpAt(plan_, event), MadeAt(graph_, plan_, event));
      if (event.kind == PlanEvent::Kind::kSwapOut) {
        WaitFor(out_job_[SwappedAt(plan_, event)], &result_.out_stall_us[event.index]);
      }
    });
    result_.step_us = now_ + result_.compute_us;
    FindPeakStored();
    return std::move(result_);
  }

 private:
  Lane& LaneOf(const Job& job) { return job.out || link_.one_lane() ? out_lane_ : in_lane_; }

  // Place of the first op or step that reads what the swap brings.
  int FirstUse(const SwapIn& swap) const {
    const auto first = std::lower_bound(plan_.steps.begin(), plan_.steps.end(), swap.before,
                                        [](const RecomputeStep& step, OpId op) { return step.before < op; });
    const auto reads = [&](OpId op) {
      const std::vector<BufferId>& inputs = graph_.ops[op].inputs;
      return std::find(inputs.begin(), inputs.end(), swap.buffer) != inputs.end();
    };
    int place = 2 * static_cast<int>(graph_.ops.size());
    for (auto step = first; step != plan_.steps.end() && 2 * step->before < place; ++step) {
      if (reads(step->op)) place = 2 * step->before;
    }
    for (OpId op = swap.before; 2 * op < place; ++op) {
      if (reads(op)) place = 2 * op;
    }
    return place;
  }

  void BeginIn(int index) {
    const SwapIn& swap = plan_.swap_ins[index];
    const int job = first_in_ + index;
    Arrive(job);
    in_job_[swap.buffer] = job;
  }

  void Execute(OpId op, const std::vector<BufferId>& made) {
    for (const BufferId b : graph_.ops[op].inputs) {
      if (in_job_[b] == kNone) continue;
      WaitFor(in_job_[b], &result_.in_stall_us[jobs_[in_job_[b]].index]);
    }
    now_ += graph_.ops[op].cost_us;
    HandOver();
    for (const BufferId b : made) {
      in_job_[b] = kNone;
      const int job = out_job_[b];
      if (job == kNone || !made_.insert(job).second) continue;
      if (!jobs_[job].queued) Arrive(job);
      // Those that are queued come in the order in which they are waited for, each when it is made, at the earliest.
      for (; next_out_ < first_in_ && (!jobs_[next_out_].queued || made_.count(next_out_) > 0); ++next_out_) {
        if (jobs_[next_out_].queued) Arrive(next_out_);
      }
    }
  }

  void Arrive(int job) {
    later_.push_back(job);
    if (!link_.queues()) HandOver();
  }

  // What has arrived before.
  void HandOver() {
    out_lane_.Advance(now_);
    in_lane_.Advance(now_);
    for (const int job : later_) LaneOf(jobs_[job]).Arrive(job);
    later_.clear();
  }

  void WaitFor(int job, double* stall_us) {
    HandOver();
    const double ends = LaneOf(jobs_[job]).EndOf(job);
    if (ends <= now_) return;
    *stall_us += ends - now_;
    result_.stall_us += ends - now_;
    now_ = ends;
  }

  // A buffer is on the tier from its making, at the earliest, to its last use after a swap-in.
  void FindPeakStored() {
    std::vector<std::pair<int, int64_t>> changes;
    std::vector<int> last(graph_.buffers.size(), 0);
    for (size_t i = 0; i < plan_.swap_ins.size(); ++i) {
      last[plan_.swap_ins[i].buffer] = std::max(last[plan_.swap_ins[i].buffer], jobs_[first_in_ + i].wanted);
    }
    for (const SwapOut& swap : plan_.swap_outs) {
      const MemBuffer& buffer = graph_.buffers[swap.buffer];
      changes.emplace_back(2 * buffer.producer + 1, buffer.bytes);
      changes.emplace_back(last[swap.buffer] + 1, -buffer.bytes);
    }
    std::sort(changes.begin(), changes.end());
    int64_t stored = 0;
    for (const auto& [place, bytes] : changes) {
      stored += bytes;
      result_.peak_stored_bytes = std::max(result_.peak_stored_bytes, stored);
    }
  }

  const MemGraph& graph_;
  const Plan& plan_;
  const SwapLink& link_;
  std::vector<Job> jobs_;  // outs, then ins
  int first_in_ = 0;
  std::vector<int> out_job_;  // per buffer
  std::vector<int> in_job_;   // per buffer: of its newest instance; kNone where that was computed
  std::set<int> made_;        // jobs of swap-outs whose tensors are there
  int next_out_ = 0;          // before it all that are queued have arrived
  std::vector<int> later_;    // have arrived, and are to be handed over
  Lane out_lane_;             // of both directions where they share one
  Lane in_lane_;
  double now_ = 0;
  Transfers result_;
};

}  // namespace

Transfers SimulateTransfers(const MemGraph& graph, const Plan& plan, const SwapLink& link) {
  return Run(graph, plan, link).Simulate();
}

}  // namespace lms
