#include "cc/core/report/report_details.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <tuple>

#include "cc/core/base/bytes.h"

namespace lms {
namespace {

template <typename T>
int64_t BytesOf(const std::vector<T>& list) {
  return static_cast<int64_t>(list.capacity() * sizeof(T));
}

int64_t BytesOf(const StepColumns& step) {
  return BytesOf(step.op) + BytesOf(step.type) + BytesOf(step.kind) + BytesOf(step.phase) + BytesOf(step.start_us) +
         BytesOf(step.took_us) + BytesOf(step.bytes);
}

// A vector without entries takes none from the heap.
int64_t BytesOf(const std::vector<std::vector<Interval>>& lists) {
  int64_t bytes = static_cast<int64_t>(lists.capacity() * sizeof(std::vector<Interval>));
  for (const std::vector<Interval>& list : lists) bytes += BytesOf(list);
  return bytes;
}

// To nanoseconds: more digits say nothing and make files long.
double Rounded(double us) { return std::round(us * 1000) / 1000; }

// The bytes that the largest kMostBuffers of them have at least.
int64_t LeastBytes(const std::vector<Holding>& holdings) {
  if (holdings.size() <= kMostBuffers) return 0;
  std::vector<int64_t> bytes;
  bytes.reserve(holdings.size());
  for (const Holding& holding : holdings) bytes.push_back(holding.bytes);
  const auto last = bytes.begin() + static_cast<std::ptrdiff_t>(kMostBuffers) - 1;
  std::nth_element(bytes.begin(), last, bytes.end(), std::greater<>());
  return *last;
}

}  // namespace

int64_t ReportDetails::MemoryBytes() const {
  int64_t bytes = BytesOf(before) + BytesOf(after) + BytesOf(buffers.name) + BytesOf(buffers.type) +
                  BytesOf(buffers.bytes) + BytesOf(buffers.role) + BytesOf(buffers.fate) + BytesOf(buffers.reason) +
                  BytesOf(buffers.cost_us) + BytesOf(buffers.before) + BytesOf(buffers.after) + BytesOf(strings);
  for (const std::string& text : strings) bytes += static_cast<int64_t>(text.capacity());
  return bytes;
}

int32_t DetailsMaker::Number(std::string_view text) {
  const int32_t known = Known(text);
  if (known != kNone) return known;
  const auto number = static_cast<int32_t>(texts_.size());
  numbers_.emplace(texts_.emplace_back(text), number);
  row_of_.push_back(kNone);
  phase_of_.push_back(Phase::kForward);
  return number;
}

int32_t DetailsMaker::Known(std::string_view text) const {
  const auto found = numbers_.find(text);
  return found == numbers_.end() ? kNone : found->second;
}

int32_t DetailsMaker::Columns(const ShownStep& step, StepColumns* columns) {
  int32_t peak = 0;
  const size_t n = step.profile.op_bytes.size();
  double now_us = 0;
  for (size_t position = 0; position < n; ++position) {
    const OpId op = step.profile.order.empty() ? static_cast<OpId>(position) : step.profile.order[position];
    const ShownOp& shown = step.ops[op];
    columns->op.push_back(Number(shown.name));
    columns->type.push_back(Number(shown.type));
    columns->kind.push_back(shown.kind);
    columns->phase.push_back(shown.phase);
    const double took_us = step.graph.ops[op].cost_us;
    columns->start_us.push_back(Rounded(now_us));
    columns->took_us.push_back(Rounded(took_us));
    if (shown.kind != OpKind::kSwapOut && shown.kind != OpKind::kSwapIn) now_us += took_us;
    columns->bytes.push_back(step.profile.op_bytes[op]);
    if (columns->bytes[position] > columns->bytes[peak]) peak = static_cast<int32_t>(position);
  }
  return peak;
}

DetailsMaker::Row& DetailsMaker::RowNamed(const ShownBuffer& shown) {
  const int32_t number = Number(shown.name);
  if (row_of_[number] == kNone) {
    row_of_[number] = static_cast<int32_t>(rows_.size());
    Row& row = rows_.emplace_back();
    row.shown = {texts_[number], Keep(shown.type), shown.role};
  }
  return rows_[row_of_[number]];
}

DetailsMaker::Row& DetailsMaker::RowOf(const ShownStep& step, const Holding& holding) {
  if (holding.what == Holding::What::kBuffer) {
    Row& row = RowNamed(step.buffers[holding.of]);
    if (row.bytes != 0 && row.bytes != holding.bytes) {
      // A list, or the result of a branch, whose storage is another one's in the new order.
      const ShownBuffer& shown = step.buffers[holding.of];
      return RowNamed({std::string(shown.name) + " (" + FormatBytes(holding.bytes) + ")", shown.type, shown.role});
    }
    if (step.graph.buffers[holding.of].resident) row.fate = Fate::kResident;
    return row;
  }
  if (holding.what == Holding::What::kWorkspace) {
    const ShownOp& op = step.ops[holding.of];
    Row& same = RowNamed({op.name, op.type, Role::kScratch});
    const bool differs = same.bytes != 0 && same.bytes != holding.bytes;
    Row& row =
        !differs ? same
                 : RowNamed({std::string(op.name) + " (" + FormatBytes(holding.bytes) + ")", op.type, Role::kScratch});
    if (row.reason.empty()) row.reason = Keep("workspace of the operation while it runs");
    return row;
  }
  const ShownBuffer& variable = step.buffers[holding.of];
  Row& row = RowNamed({std::string(variable.name) + " (before its update)", variable.type, Role::kWeight});
  if (row.reason.empty()) row.reason = Keep("updated while it was still being read: a copy is made");
  return row;
}

void DetailsMaker::Before(const ShownStep& step) {
  numbers_.reserve(step.ops.size() + step.buffers.size());
  rows_.reserve(step.buffers.size());
  details_->peak_before = Columns(step, &details_->before);
  for (const ShownOp& op : step.ops) phase_of_[Number(op.name)] = op.phase;
  least_bytes_ = LeastBytes(step.record.holdings);
  for (const Holding& holding : step.record.holdings) {
    if (holding.bytes < least_bytes_) {
      ++details_->omitted_buffers;
      details_->omitted_bytes += holding.bytes;
      continue;
    }
    Row& row = RowOf(step, holding);
    row.bytes = std::max(row.bytes, holding.bytes);
    row.before.push_back({holding.first, holding.last});
  }
}

void DetailsMaker::After(const ShownStep& step) {
  details_->peak_after = Columns(step, &details_->after);
  for (const Holding& holding : step.record.holdings) {
    if (holding.bytes < least_bytes_) continue;
    Row& row = RowOf(step, holding);
    row.bytes = std::max(row.bytes, holding.bytes);
    row.after.push_back({holding.first, holding.last});
  }
}

Phase DetailsMaker::PhaseOf(std::string_view op) const {
  const int32_t number = Known(op);
  return number == kNone ? Phase::kForward : phase_of_[number];
}

DetailsMaker::Row* DetailsMaker::Find(std::string_view buffer) {
  const int32_t number = Known(buffer);
  return number == kNone || row_of_[number] == kNone ? nullptr : &rows_[row_of_[number]];
}

const DetailsMaker::Row* DetailsMaker::Find(std::string_view buffer) const {
  return const_cast<DetailsMaker*>(this)->Find(buffer);
}

bool DetailsMaker::HeldAtPeakBefore(std::string_view buffer) const {
  const Row* row = Find(buffer);
  if (row == nullptr) return false;
  const int32_t peak = details_->peak_before;
  return std::any_of(row->before.begin(), row->before.end(),
                     [peak](const Interval& held) { return held[0] <= peak && peak <= held[1]; });
}

void DetailsMaker::SetFate(std::string_view buffer, Fate fate, std::string_view reason, double cost_us) {
  Row* row = Find(buffer);
  if (row == nullptr) return;
  row->fate = fate;
  row->reason = Keep(reason);
  row->cost_us = cost_us;
}

void DetailsMaker::SetReason(std::string_view buffer, std::string_view reason) {
  Row* row = Find(buffer);
  if (row != nullptr && row->reason.empty()) row->reason = Keep(reason);
}

std::shared_ptr<const ReportDetails> DetailsMaker::Finish() {
  std::vector<size_t> largest(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    largest[i] = i;
    std::sort(rows_[i].before.begin(), rows_[i].before.end());
    std::sort(rows_[i].after.begin(), rows_[i].after.end());
  }
  std::sort(largest.begin(), largest.end(), [this](size_t a, size_t b) {
    return std::tie(rows_[b].bytes, rows_[a].shown.name) < std::tie(rows_[a].bytes, rows_[b].shown.name);
  });
  BufferColumns& buffers = details_->buffers;
  const int32_t nothing = Number("");
  for (size_t i = 0; i < largest.size(); ++i) {
    Row& row = rows_[largest[i]];
    if (i >= kMostBuffers) {
      if (row.before.empty()) continue;
      ++details_->omitted_buffers;
      details_->omitted_bytes += row.bytes;
      continue;
    }
    buffers.name.push_back(Number(row.shown.name));
    buffers.type.push_back(Number(row.shown.type));
    buffers.bytes.push_back(row.bytes);
    buffers.role.push_back(row.shown.role);
    buffers.fate.push_back(row.fate);
    buffers.reason.push_back(row.reason.empty() ? nothing : Number(row.reason));
    buffers.cost_us.push_back(row.cost_us);
    buffers.before.push_back(std::move(row.before));
    buffers.after.push_back(std::move(row.after));
  }
  // What was left out leaves no names behind.
  std::vector<int32_t> number(texts_.size(), kNone);
  for (std::vector<int32_t>* column : {&details_->before.op, &details_->before.type, &details_->after.op,
                                       &details_->after.type, &buffers.name, &buffers.type, &buffers.reason}) {
    for (int32_t& text : *column) {
      if (number[text] == kNone) {
        number[text] = static_cast<int32_t>(details_->strings.size());
        details_->strings.push_back(texts_[text]);
      }
      text = number[text];
    }
  }
  return std::shared_ptr<const ReportDetails>(std::move(details_));
}

}  // namespace lms
