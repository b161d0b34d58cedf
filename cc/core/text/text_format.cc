#include "cc/core/text/text_format.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "cc/core/base/sort_unique.h"
#include "cc/core/text/text_reader.h"

namespace lms {
namespace {

constexpr char kResidentReason[] = "present during the whole step";

// New number of each buffer, in order of appearance.
std::vector<BufferId> AppearanceOrder(const MemGraph& graph) {
  std::vector<BufferId> number(graph.buffers.size(), kNone);
  BufferId next = 0;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].producer == kNone) number[b] = next++;
  }
  for (const MemOp& op : graph.ops) {
    for (const BufferId b : op.outputs) number[b] = next++;
  }
  return number;
}

void Renumber(const std::vector<BufferId>& number, std::vector<BufferId>* ids) {
  for (BufferId& id : *ids) id = number[id];
}

// Overwriters, seen from the op.
std::vector<std::vector<BufferId>> OverwrittenBy(const MemGraph& graph) {
  std::vector<std::vector<BufferId>> overwritten(graph.ops.size());
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    for (const OpId op : graph.buffers[b].overwritten_by) overwritten[op].push_back(static_cast<BufferId>(b));
  }
  return overwritten;
}

void NormaliseOp(const MemGraph& graph, OpId id, MemOp* op) {
  const auto made_later = [&](BufferId b) { return graph.buffers[b].producer >= id; };
  op->inputs.erase(std::remove_if(op->inputs.begin(), op->inputs.end(), made_later), op->inputs.end());
  const auto of_no_use = [&](BufferId b) { return made_later(b) || graph.buffers[b].resident; };
  op->forwardable.erase(std::remove_if(op->forwardable.begin(), op->forwardable.end(), of_no_use),
                        op->forwardable.end());
  for (const BufferId b : op->inputs) {
    if (graph.buffers[b].producer != kNone) op->deps.push_back(graph.buffers[b].producer);
  }
  SortUnique(&op->deps);
  op->cost_us = op->cost_us >= 0 ? std::min(op->cost_us, kMostTextCostUs) : 0;  // not a number: 0
  if (op->recomputable) op->keep_reason.clear();
}

void NormaliseBuffer(MemGraph* graph, MemBuffer* buffer) {
  if (buffer->producer == kNone) {
    buffer->resident = true;
    buffer->escapes = false;
    buffer->swappable = true;
    buffer->keep_reason = kResidentReason;
  }
  if (buffer->resident) {
    buffer->evictable = false;
    if (buffer->keep_reason.empty()) buffer->keep_reason = kResidentReason;
  } else if (buffer->evictable && !graph->ops[buffer->producer].recomputable) {
    buffer->evictable = false;
    buffer->keep_reason = graph->ops[buffer->producer].keep_reason;
  }
  if (buffer->evictable) buffer->keep_reason.clear();
  SortUnique(&buffer->overwritten_by);
  std::vector<OpId>& writers = buffer->overwritten_by;
  writers.erase(writers.begin(), std::upper_bound(writers.begin(), writers.end(), buffer->producer));
  if (buffer->producer == kNone) return;
  for (const OpId op : writers) graph->ops[op].deps.push_back(buffer->producer);
}

// ---- Writing ----

void Append(std::string* text, const char* word, std::string_view token) {
  text->append(" ").append(word).append(" ").append(TokenText(token));
}

template <typename Named>
void AppendList(std::string* text, const char* word, const std::vector<int32_t>& ids, const std::vector<Named>& named) {
  if (ids.empty()) return;
  text->append("  ").append(word);
  for (const int32_t id : ids) text->append(" ").append(TokenText(named[id].name));
  text->append("\n");
}

void AppendBuffer(std::string* text, const MemBuffer& buffer) {
  Append(text, " out", buffer.name);
  text->append(" ").append(std::to_string(buffer.bytes));
  const bool said = buffer.resident && buffer.keep_reason == kResidentReason;
  if (!buffer.evictable && !said) Append(text, "keep", buffer.keep_reason);
  if (buffer.resident) text->append(" resident");
  if (buffer.escapes) text->append(" escapes");
  if (!buffer.swappable) text->append(" noswap");
  if (buffer.no_more_readers) text->append(" last-readers");
  text->append("\n");
}

void AppendOp(std::string* text, const MemGraph& graph, OpId id, const std::vector<BufferId>& overwrites) {
  const MemOp& op = graph.ops[id];
  text->append("op ").append(TokenText(op.name));
  if (!op.type.empty()) Append(text, "type", op.type);
  if (op.cost_us > 0) Append(text, "cost", CostText(op.cost_us));
  if (op.workspace_bytes > 0) Append(text, "workspace", std::to_string(op.workspace_bytes));
  if (!op.recomputable) Append(text, "keep", op.keep_reason);
  if (!op.anchor) text->append(" floating");
  text->append("\n");
  for (const BufferId b : op.outputs) AppendBuffer(text, graph.buffers[b]);
  AppendList(text, "in", op.inputs, graph.buffers);
  AppendList(text, "forwards", op.forwardable, graph.buffers);
  AppendList(text, "overwrites", overwrites, graph.buffers);
  std::vector<OpId> implied;
  for (const std::vector<BufferId>* list : {&op.inputs, &overwrites}) {
    for (const BufferId b : *list) implied.push_back(graph.buffers[b].producer);
  }
  SortUnique(&implied);
  std::vector<OpId> after;
  std::set_difference(op.deps.begin(), op.deps.end(), implied.begin(), implied.end(), std::back_inserter(after));
  AppendList(text, "after", after, graph.ops);
}

}  // namespace

MemGraph NormalForm(MemGraph graph) {
  for (size_t i = 0; i < graph.ops.size(); ++i) NormaliseOp(graph, static_cast<OpId>(i), &graph.ops[i]);
  for (MemBuffer& buffer : graph.buffers) NormaliseBuffer(&graph, &buffer);
  const std::vector<BufferId> number = AppearanceOrder(graph);
  for (MemOp& op : graph.ops) {
    SortUnique(&op.deps);
    for (std::vector<BufferId>* ids : {&op.inputs, &op.outputs, &op.forwardable}) Renumber(number, ids);
  }
  std::vector<MemBuffer> buffers(graph.buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) buffers[number[b]] = std::move(graph.buffers[b]);
  graph.buffers = std::move(buffers);
  return graph;
}

std::string WriteGraph(const MemGraph& any) {
  const MemGraph graph = NormalForm(any);
  const std::vector<std::vector<BufferId>> overwrites = OverwrittenBy(graph);
  std::string text = "lms-graph 1\n";
  for (const MemBuffer& buffer : graph.buffers) {
    if (buffer.producer != kNone) break;
    text.append("resident ").append(TokenText(buffer.name)).append(" ").append(std::to_string(buffer.bytes));
    if (buffer.no_more_readers) text.append(" last-readers");
    text.append("\n");
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) AppendOp(&text, graph, static_cast<OpId>(i), overwrites[i]);
  return text;
}

}  // namespace lms
