#include "cc/tf/predict/outcomes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace lms {
namespace {

constexpr size_t kMostCombinations = 8;
// Of what branches make: one that makes less need not be taken.
constexpr int64_t kLeastShare = 16;
constexpr int kMostStepsBack = 64;  // from zeros to the makers of what they are like

using Predicate = std::pair<int, int>;  // node and port

// What decides about branches: that a loop goes on does not.
std::vector<std::vector<Condition>> ChoicesOfRegions(const GraphIndex& index) {
  std::vector<bool> of_loop(index.size(), false);
  for (int f = 1; f < index.frames(); ++f) {
    if (index.frame(f).loop_cond >= 0) of_loop[index.frame(f).loop_cond] = true;
  }
  std::vector<std::vector<Condition>> choices(index.regions());
  for (int region = 0; region < index.regions(); ++region) {
    for (const Condition& condition : index.region(region).conditions) {
      if (condition.port >= 0 && !of_loop[condition.node]) choices[region].push_back(condition);
    }
  }
  return choices;
}

// Zeros like an Optional of a branch, for the gradient of its gradient: they take no memory where it holds no value.
struct OptionalZeros {
  OpId op;
  std::vector<int> makers;  // nodes that give the Optional its value, where they run
};

std::vector<OptionalZeros> FindOptionalZeros(const GraphIndex& index, const ImportedGraph& imported) {
  std::vector<OptionalZeros> all;
  for (OpId op = 0; op < static_cast<OpId>(imported.node_of_op.size()); ++op) {
    if (imported.graph.ops[op].type != "ZerosLike") continue;
    OptionalZeros zeros{op, {}};
    std::vector<TensorRef> pending = index[imported.node_of_op[op]].inputs;
    bool known = true;
    for (int steps = 0; known && !pending.empty(); ++steps) {
      const int node = pending.back().node;
      pending.pop_back();
      const OpId at = imported.op_of_node[node];
      const std::string type = at == kNone ? "" : imported.graph.ops[at].type;
      const std::vector<TensorRef>& inputs = index[node].inputs;
      if (type == "OptionalFromValue") {
        zeros.makers.push_back(node);
      } else if (type == "Merge") {
        pending.insert(pending.end(), inputs.begin(), inputs.end());
      } else if ((type == "Identity" || type == "Switch") && !inputs.empty()) {
        pending.push_back(inputs[0]);
      } else {
        known = type == "OptionalNone";
      }
      known = known && steps < kMostStepsBack;
    }
    if (known) all.push_back(std::move(zeros));
  }
  return all;
}

}  // namespace

std::vector<Outcome> FindOutcomes(const GraphIndex& index, const ImportedGraph& imported) {
  const std::vector<std::vector<Condition>> choices = ChoicesOfRegions(index);
  if (std::all_of(choices.begin(), choices.end(), [](const auto& of_region) { return of_region.empty(); })) return {{}};
  std::vector<int64_t> made(choices.size(), 0);
  int64_t in_branches = 0;
  for (const MemBuffer& buffer : imported.graph.buffers) {
    if (buffer.resident || buffer.producer == kNone) continue;
    const int region = index[imported.node_of_op[buffer.producer]].region;
    if (region < 0 || choices[region].empty()) continue;
    made[region] += buffer.bytes;
    in_branches += buffer.bytes;
  }
  std::map<Predicate, std::map<int, int64_t>> made_by;  // by outcome
  for (size_t region = 0; region < choices.size(); ++region) {
    for (const Condition& choice : choices[region]) made_by[{choice.node, choice.port}][choice.outcome] += made[region];
  }
  std::map<Predicate, int> usual;
  for (const auto& [predicate, outcomes] : made_by) {
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    usual[predicate] = std::max_element(outcomes.begin(), outcomes.end(), less)->first;
  }
  std::vector<int> taken;
  for (size_t region = 0; region < choices.size(); ++region) {
    if (made[region] > in_branches / kLeastShare) taken.push_back(static_cast<int>(region));
  }
  std::stable_sort(taken.begin(), taken.end(), [&](int a, int b) { return made[a] > made[b]; });
  if (taken.size() > kMostCombinations) taken.resize(kMostCombinations);
  if (taken.empty()) taken.push_back(0);
  const std::vector<OptionalZeros> zeros = FindOptionalZeros(index, imported);
  std::vector<Outcome> combinations;
  for (const int region : taken) {
    std::map<Predicate, int> outcome_of = usual;
    for (const Condition& choice : choices[region]) outcome_of[{choice.node, choice.port}] = choice.outcome;
    std::vector<bool> region_dead;
    for (const std::vector<Condition>& of_region : choices) {
      region_dead.push_back(std::any_of(of_region.begin(), of_region.end(), [&](const Condition& choice) {
        return outcome_of.at({choice.node, choice.port}) != choice.outcome;
      }));
    }
    Outcome outcome;
    for (int node = 0; node < index.size(); ++node) {
      outcome.dead.push_back(index[node].region >= 0 && region_dead[index[node].region]);
    }
    for (const int node : imported.node_of_op) outcome.makes_nothing.push_back(outcome.dead[node]);
    const auto is_dead = [&](int node) { return outcome.dead[node]; };
    for (const OptionalZeros& like : zeros) {
      if (std::all_of(like.makers.begin(), like.makers.end(), is_dead)) outcome.makes_nothing[like.op] = true;
    }
    const auto same = [&](const Outcome& other) { return other.makes_nothing == outcome.makes_nothing; };
    if (std::none_of(combinations.begin(), combinations.end(), same)) combinations.push_back(std::move(outcome));
  }
  return combinations;
}

}  // namespace lms
