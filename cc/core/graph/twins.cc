#include "cc/core/graph/twins.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "cc/core/graph/mix.h"
#include "cc/core/graph/schedule.h"

namespace lms {
namespace {

int OutputIndex(const MemGraph& graph, BufferId buffer) {
  const std::vector<BufferId>& outputs = graph.ops[graph.buffers[buffer].producer].outputs;
  return static_cast<int>(std::find(outputs.begin(), outputs.end(), buffer) - outputs.begin());
}

// Is the buffer made within the part? What is resident (arguments, weights) is not: nothing tells one from another.
bool Within(const MemGraph& graph, const std::vector<bool>& part, BufferId buffer) {
  const OpId producer = graph.buffers[buffer].producer;
  return producer != kNone && !graph.buffers[buffer].resident && part[producer];
}

// Per op of the part: what it is, with all that leads to it within the part.
std::vector<uint64_t> Colours(const MemGraph& graph, const std::vector<bool>& part) {
  std::vector<uint64_t> colours(graph.ops.size(), 0);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    if (!part[o]) continue;
    const MemOp& op = graph.ops[o];
    uint64_t colour = Mix(std::hash<std::string>()(op.type), op.recomputable ? 1 : 2);
    for (const BufferId b : op.outputs) colour = Mix(colour, static_cast<uint64_t>(graph.buffers[b].bytes));
    for (const BufferId b : op.inputs) {
      colour = Within(graph, part, b) ? Mix(Mix(colour, colours[graph.buffers[b].producer]), OutputIndex(graph, b) + 3U)
                                      : Mix(colour, static_cast<uint64_t>(graph.buffers[b].bytes) + 7U);
    }
    colours[o] = colour;
  }
  return colours;
}

bool Number(const std::string& text, size_t begin) {
  return begin < text.size() && text.find_first_not_of("0123456789", begin) == std::string::npos;
}

// The name without the parts of its path that say which replica it is of; `loose`: nor the numbers that make names
// different ("concat_1").
std::string PlainName(const std::string& name, bool loose) {
  static constexpr char kReplica[] = "replica_";
  std::string plain;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    std::string part = name.substr(begin, end - begin);
    if (part.rfind(kReplica, 0) != 0 || !Number(part, sizeof(kReplica) - 1)) {
      for (size_t last = part.rfind('_'); loose && last != std::string::npos && Number(part, last + 1);) {
        part.resize(last);
        last = part.rfind('_');
      }
      plain += part + "/";
    }
    begin = end + 1;
  }
  return plain;
}

// Of one type, and as many bytes?
bool Alike(const MemGraph& a, const MemOp& x, const MemGraph& b, const MemOp& y) {
  return x.type == y.type &&
         std::equal(x.outputs.begin(), x.outputs.end(), y.outputs.begin(), y.outputs.end(),
                    [&](BufferId of_x, BufferId of_y) { return a.buffers[of_x].bytes == b.buffers[of_y].bytes; });
}

}  // namespace

std::vector<OpId> PairOps(const MemGraph& a, const std::vector<bool>& in_a, const MemGraph& b,
                          const std::vector<bool>& in_b) {
  const std::vector<uint64_t> colours_a = Colours(a, in_a);
  const std::vector<uint64_t> colours_b = Colours(b, in_b);
  std::vector<OpId> twins(a.ops.size(), kNone);
  std::vector<bool> taken(b.ops.size(), false);
  enum class By { kName, kLooseName, kColour };
  for (const By by : {By::kName, By::kLooseName, By::kColour}) {
    std::map<std::pair<uint64_t, std::string>, std::vector<OpId>> candidates;  // latest first
    const auto key = [by](uint64_t colour, const MemOp& op) {
      if (by == By::kColour) return std::make_pair(colour, std::string());
      return std::make_pair(uint64_t{0}, PlainName(op.name, by == By::kLooseName) + op.type);
    };
    for (OpId o = static_cast<OpId>(b.ops.size()) - 1; o >= 0; --o) {
      if (in_b[o] && !taken[o]) candidates[key(colours_b[o], b.ops[o])].push_back(o);
    }
    for (OpId o = 0; o < static_cast<OpId>(a.ops.size()); ++o) {
      if (!in_a[o] || twins[o] != kNone) continue;
      const auto found = candidates.find(key(colours_a[o], a.ops[o]));
      if (found == candidates.end() || found->second.empty()) continue;
      twins[o] = found->second.back();
      taken[twins[o]] = true;
      found->second.pop_back();
    }
  }
  for (OpId o = 0; o < static_cast<OpId>(a.ops.size()); ++o) {
    if (twins[o] != kNone && !Alike(a, a.ops[o], b, b.ops[twins[o]])) twins[o] = kNone;
  }
  return twins;
}

std::optional<std::vector<OpId>> OrderLikeTwins(const std::vector<OpId>& twins, const MemGraph& b) {
  MemGraph chained = b;
  OpId last = kNone;
  for (const OpId twin : twins) {
    if (twin == kNone) continue;
    std::vector<OpId>& deps = chained.ops[twin].deps;
    if (last != kNone && std::find(deps.begin(), deps.end(), last) == deps.end()) deps.push_back(last);
    last = twin;
  }
  std::vector<OpId> order = ExecutionOrder(chained);
  if (order.size() != b.ops.size()) return std::nullopt;
  return order;
}

std::optional<Plan> PlanLikeTwins(const MemGraph& a, const Plan& plan, const std::vector<OpId>& twins,
                                  const MemGraph& b) {
  const auto next = [&](OpId op) {
    while (op < static_cast<OpId>(twins.size()) && twins[op] == kNone) ++op;
    return op < static_cast<OpId>(twins.size()) ? twins[op] : kNone;
  };
  const auto previous = [&](OpId op) {
    while (op >= 0 && twins[op] == kNone) --op;
    return op >= 0 ? twins[op] : kNone;
  };
  const auto buffer = [&](BufferId id) {
    const OpId producer = a.buffers[id].producer;
    if (producer == kNone || twins[producer] == kNone) return kNone;
    return b.ops[twins[producer]].outputs[OutputIndex(a, id)];
  };
  Plan mapped;
  for (const RecomputeStep& step : plan.steps) {
    RecomputeStep twin = step;
    twin.before = next(step.before);
    twin.op = twins[step.op];
    if (twin.before == kNone || twin.op == kNone) return std::nullopt;
    for (BufferId& id : twin.provides) {
      id = buffer(id);
      if (id == kNone) return std::nullopt;
    }
    mapped.steps.push_back(std::move(twin));
  }
  for (const SwapOut& out : plan.swap_outs) mapped.swap_outs.push_back({previous(out.by), buffer(out.buffer)});
  for (const SwapIn& in : plan.swap_ins) mapped.swap_ins.push_back({next(in.before), buffer(in.buffer)});
  for (const SwapOut& out : mapped.swap_outs) {
    if (out.by == kNone || out.buffer == kNone) return std::nullopt;
  }
  for (const SwapIn& in : mapped.swap_ins) {
    if (in.before == kNone || in.buffer == kNone) return std::nullopt;
  }
  std::sort(mapped.steps.begin(), mapped.steps.end(), [](const RecomputeStep& x, const RecomputeStep& y) {
    return std::tie(x.before, x.op) < std::tie(y.before, y.op);
  });
  std::sort(mapped.swap_outs.begin(), mapped.swap_outs.end(),
            [](const SwapOut& x, const SwapOut& y) { return std::tie(x.by, x.buffer) < std::tie(y.by, y.buffer); });
  std::sort(mapped.swap_ins.begin(), mapped.swap_ins.end(), [](const SwapIn& x, const SwapIn& y) {
    return std::tie(x.before, x.buffer) < std::tie(y.before, y.buffer);
  });
  if (!ValidatePlan(b, mapped).empty()) return std::nullopt;
  return mapped;
}

}  // namespace lms
