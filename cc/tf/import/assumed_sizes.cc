#include "cc/tf/import/assumed_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cc/core/base/words.h"

namespace lms {
namespace {

// Bytes that rest on each assumption.
using Bytes = std::array<int64_t, kMostAssumptions>;

void Add(AssumptionSet assumptions, int64_t bytes, Bytes* sums) {
  for (int bit = 0; bit < kMostAssumptions; ++bit) {
    if ((assumptions >> bit & 1) != 0) (*sums)[bit] += bytes;
  }
}

// Of those that bytes rest on, most bytes first.
std::vector<std::string> Names(const Bytes& sums, const AssumptionNames& names) {
  std::vector<int> bits;
  for (int bit = 0; bit < kMostAssumptions; ++bit) {
    if (sums[bit] > 0) bits.push_back(bit);
  }
  std::stable_sort(bits.begin(), bits.end(), [&](int a, int b) { return sums[a] > sums[b]; });
  std::vector<std::string> all;
  const auto add = [&all](const std::string& name) {
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  };
  bool unnamed = false;
  for (const int bit : bits) {
    unnamed = unnamed || bit >= static_cast<int>(names.size());
    if (bit >= static_cast<int>(names.size())) continue;
    for (const std::string& name : names[bit]) add(name);
  }
  if (unnamed) add(all.empty() ? "what only the run decides" : "others");
  return all;
}

double AssumedBytes(const ImportedGraph& imported) {
  double assumed = 0;
  for (size_t b = 0; b < imported.graph.buffers.size(); ++b) {
    if (imported.assumptions_of_buffer[b] != 0) assumed += static_cast<double>(imported.graph.buffers[b].bytes);
  }
  return assumed;
}

// Tensors of which not even the number of dimensions is known.
std::vector<std::string> Unranked(const ImportedGraph& imported) {
  std::vector<std::string> unranked;
  for (const MemBuffer& buffer : imported.graph.buffers) {
    if (buffer.keep_reason == kSizeUnknown) unranked.push_back(buffer.name);
  }
  return unranked;
}

}  // namespace

std::string AssumptionWarning(const ImportedGraph& imported, const AssumptionNames& names, int64_t assumed_dim,
                              const std::vector<std::string>& strange) {
  Bytes sums{};
  for (size_t b = 0; b < imported.graph.buffers.size(); ++b) {
    Add(imported.assumptions_of_buffer[b], imported.graph.buffers[b].bytes, &sums);
  }
  const std::vector<std::string> assumed = Names(sums, names);
  if (assumed.empty()) return "";
  const bool one = assumed.size() == 1;
  return std::string(one ? "the size of " : "the sizes of ") + NameSome(assumed) +
         (one ? " is not known and was taken to be " : " are not known and were taken to be ") +
         std::to_string(assumed_dim) + ": set unknown_dim, for example to the batch size" +
         (strange.empty() ? ""
                          : " (it names " + NameSome(strange) + ", which " +
                                (strange.size() == 1 ? "is no argument" : "are no arguments") + " of this function)");
}

std::string AssumptionAtPeak(const ImportedGraph& imported, const MemoryProfile& profile, const RunRecord& record,
                             const AssumptionNames& names, int64_t assumed_dim) {
  const std::vector<int64_t> timeline = profile.Timeline();
  if (timeline.empty()) return "";
  const auto peak = static_cast<int32_t>(std::max_element(timeline.begin(), timeline.end()) - timeline.begin());
  Bytes sums{};
  int64_t assumed_bytes = 0;
  int64_t all_bytes = 0;
  for (const Holding& holding : record.holdings) {
    if (peak < holding.first || holding.last < peak) continue;
    const bool buffer = holding.what != Holding::What::kWorkspace;
    const AssumptionSet assumptions = buffer ? imported.assumptions_of_buffer[holding.of] : 0;
    if (buffer && imported.graph.buffers[holding.of].resident && assumptions == 0) continue;
    all_bytes += holding.bytes;
    if (assumptions == 0) continue;
    assumed_bytes += holding.bytes;
    Add(assumptions, holding.bytes, &sums);
  }
  const double share = all_bytes == 0 ? 0 : static_cast<double>(assumed_bytes) / static_cast<double>(all_bytes);
  if (share < kLeastAssumedShare) return "";
  const std::vector<std::string> assumed = Names(sums, names);
  const bool one = assumed.size() == 1;
  char percent[8];
  std::snprintf(percent, sizeof percent, "%.0f%%", 100 * share);
  return NameSome(assumed) + (one ? " is " : " are ") + std::to_string(assumed_dim) + " (assumed: " + percent +
         " of the predicted activations rest on " + (one ? "it" : "them") + "; set unknown_dim)";
}

std::string UnrankedWarning(const ImportedGraph& imported) {
  const std::vector<std::string> unranked = Unranked(imported);
  if (unranked.empty()) return "";
  return "of " + NameSome(unranked) + " not even the number of dimensions is known: what " +
         (unranked.size() == 1 ? "it takes" : "they take") + " is not in the prediction";
}

std::vector<OpenSize> OpenSizes(const std::vector<ShapeValues::OpenNode>& nodes, const ImportedGraph& imported,
                                int64_t activations) {
  const double least_bytes = kLeastAssumedShare * static_cast<double>(activations);
  const double assumed = AssumedBytes(imported);
  const double times = assumed > least_bytes ? 0 : std::sqrt(least_bytes / std::max(assumed, 1.0));
  // What rests on elements that cannot be counted: as many floats as their square in each tensor without a size.
  const auto unranked = static_cast<double>(std::max<size_t>(1, Unranked(imported).size()) * sizeof(float));
  const double least_unranked = std::sqrt(least_bytes / unranked);
  std::vector<OpenSize> sizes;
  for (const ShapeValues::OpenNode& node : nodes) {
    OpenSize size;
    size.node = node.name;
    const double least = node.elements < 0 ? least_unranked : times * static_cast<double>(node.elements);
    if (!node.recorded) size.least = static_cast<int64_t>(std::min(least, 1e18));
    // Of one result it is known from where on it is larger; of several all are recorded.
    if (!node.recorded && node.told) size.least = node.results == 1 ? node.elements + 1 : 0;
    sizes.push_back(std::move(size));
  }
  return sizes;
}

std::vector<OpenLoop> OpenLoops(const ImportedGraph& imported, const TensorSizes& sizes, int64_t activations) {
  const double least_bytes = kLeastAssumedShare * static_cast<double>(activations);
  std::vector<OpenLoop> loops;
  for (const TensorLists::OpenLoop& open : imported.open_loops) {
    OpenLoop& loop = loops.emplace_back();
    loop.loop = open.loop;
    loop.counter = open.counter;
    if (open.step_bytes == 0 || sizes.RecordedTrips(open.loop) >= 0) continue;
    loop.least = static_cast<int64_t>(least_bytes / static_cast<double>(open.step_bytes));
  }
  return loops;
}

}  // namespace lms
