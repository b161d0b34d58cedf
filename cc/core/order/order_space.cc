#include "cc/core/order/order_space.h"

#include <algorithm>

namespace lms {

void IdLists::Fill(size_t size, const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  first_.assign(size + 1, 0);
  for (const auto& [list, id] : pairs) ++first_[list + 1];
  for (size_t i = 0; i < size; ++i) first_[i + 1] += first_[i];
  ids_.resize(pairs.size());
  std::vector<size_t> next(first_.begin(), first_.end() - 1);
  for (const auto& [list, id] : pairs) ids_[next[list]++] = id;
}

OrderSpace::OrderSpace(const MemGraph& graph) : graph_(graph), resident_bytes_(graph.ResidentBytes()) {
  const OpId n = static_cast<OpId>(graph.ops.size());
  const size_t buffers = graph.buffers.size();
  std::vector<std::pair<int32_t, int32_t>> before;
  std::vector<std::pair<int32_t, int32_t>> inputs;
  std::vector<std::pair<int32_t, int32_t>> outputs;
  std::vector<std::pair<int32_t, int32_t>> readers;
  for (OpId op = 0; op < n; ++op) {
    for (const OpId dep : graph.ops[op].deps) before.emplace_back(op, dep);
  }
  std::vector<OpId> last_reader(buffers, kNone);
  for (OpId op = 0; op < n; ++op) {
    for (const BufferId b : graph.ops[op].inputs) {
      const MemBuffer& buffer = graph.buffers[b];
      if (!buffer.overwritten_by.empty()) {
        // The first one that overwrites it after this op, and the last before it.
        OpId next = kNone;
        OpId previous = kNone;
        for (const OpId writer : buffer.overwritten_by) {
          if (writer > op && (next == kNone || writer < next)) next = writer;
          if (writer < op) previous = std::max(previous, writer);
        }
        if (next != kNone) before.emplace_back(next, op);
        if (previous != kNone) before.emplace_back(op, previous);
      }
      if (buffer.no_more_readers) {
        if (last_reader[b] != kNone) before.emplace_back(op, last_reader[b]);
        last_reader[b] = op;
      }
      if (buffer.producer != kNone && buffer.producer > op) {
        before.emplace_back(buffer.producer, op);
        continue;  // what comes around a loop counts nothing
      }
      if (buffer.resident) continue;
      inputs.emplace_back(op, b);
      readers.emplace_back(b, op);
    }
    for (const BufferId b : graph.ops[op].outputs) {
      if (!graph.buffers[b].resident) outputs.emplace_back(op, b);
    }
  }
  for (const MemBuffer& buffer : graph.buffers) {
    std::vector<OpId> writers = buffer.overwritten_by;
    std::sort(writers.begin(), writers.end());
    for (size_t i = 1; i < writers.size(); ++i) before.emplace_back(writers[i], writers[i - 1]);
  }
  std::vector<std::pair<int32_t, int32_t>> after;
  after.reserve(before.size());
  for (const auto& [op, dep] : before) after.emplace_back(dep, op);
  before_.Fill(n, before);
  after_.Fill(n, after);
  inputs_.Fill(n, inputs);
  outputs_.Fill(n, outputs);
  readers_.Fill(buffers, readers);
}

bool OrderSpace::Allows(const std::vector<OpId>& order) const {
  std::vector<int> place(graph_.ops.size(), -1);
  if (order.size() != place.size()) return false;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= size() || place[order[i]] >= 0) return false;
    place[order[i]] = static_cast<int>(i);
  }
  for (OpId op = 0; op < size(); ++op) {
    for (const OpId dep : before_[op]) {
      if (place[dep] >= place[op]) return false;
    }
  }
  return true;
}

OrderProfile::OrderProfile(const OrderSpace& space)
    : space_(space), bytes_(space.graph().ops.size(), 0), last_read_(space.graph().buffers.size(), -1) {}

int64_t OrderProfile::Forwarded(OpId op, int place) const {
  const MemGraph& graph = space_.graph();
  const MemOp& o = graph.ops[op];
  if (o.forwardable.empty()) return 0;
  std::vector<BufferId> dying;
  for (const BufferId b : space_.inputs()[op]) {
    if (last_read_[b] == place && std::find(o.forwardable.begin(), o.forwardable.end(), b) != o.forwardable.end()) {
      dying.push_back(b);
    }
  }
  int64_t bytes = 0;
  for (const BufferId out : space_.outputs()[op]) {
    if (dying.empty()) break;
    const auto same = std::find_if(dying.begin(), dying.end(),
                                   [&](BufferId in) { return graph.buffers[in].bytes == graph.buffers[out].bytes; });
    if (same == dying.end()) continue;
    bytes += graph.buffers[out].bytes;
    dying.erase(same);
  }
  return bytes;
}

void OrderProfile::Compute(const std::vector<OpId>& order) {
  const MemGraph& graph = space_.graph();
  const int n = static_cast<int>(order.size());
  std::fill(last_read_.begin(), last_read_.end(), -1);
  for (int i = 0; i < n; ++i) {
    for (const BufferId b : space_.inputs()[order[i]]) last_read_[b] = i;
  }
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].escapes) last_read_[b] = n;
  }
  int64_t live = 0;
  peak_ = 0;
  for (int i = 0; i < n; ++i) {
    const OpId op = order[i];
    int64_t made = 0;
    int64_t kept = 0;
    for (const BufferId b : space_.outputs()[op]) {
      made += graph.buffers[b].bytes;
      if (last_read_[b] >= 0) kept += graph.buffers[b].bytes;
    }
    bytes_[i] = live + made + graph.ops[op].workspace_bytes - Forwarded(op, i);
    peak_ = std::max(peak_, bytes_[i]);
    live += kept;
    for (const BufferId b : space_.inputs()[op]) {
      if (last_read_[b] == i) live -= graph.buffers[b].bytes;
    }
  }
}

double OrderProfile::Excess(int64_t limit) const {
  double excess = 0;
  for (const int64_t bytes : bytes_) {
    if (bytes > limit) excess += static_cast<double>(bytes - limit);
  }
  return excess;
}

}  // namespace lms
