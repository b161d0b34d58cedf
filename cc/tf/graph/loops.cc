#include "cc/tf/graph/loops.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

// More are not told apart in a loop: each takes another look at it.
constexpr size_t kMostOutcomes = 64;

bool IsOp(const tensorflow::NodeDef& node, const char* name) {
  return node.op() == name || node.op() == std::string("Ref") + name;
}

// Without one there is no sequence to keep to.
bool HasSeed(const tensorflow::NodeDef& node) {
  return std::any_of(node.attr().begin(), node.attr().end(), [](const auto& attr) {
    return (attr.first == "seed" || attr.first == "seed2") && attr.second.i() != 0;
  });
}

}  // namespace

bool IsEnter(const tensorflow::NodeDef& node) { return IsOp(node, "Enter"); }
bool IsConstantEnter(const tensorflow::NodeDef& node) {
  const auto constant = node.attr().find("is_constant");
  return IsEnter(node) && constant != node.attr().end() && constant->second.b();
}
bool IsExit(const tensorflow::NodeDef& node) { return IsOp(node, "Exit"); }
bool IsNextIteration(const tensorflow::NodeDef& node) { return IsOp(node, "NextIteration"); }

Loops::Loops(const tensorflow::GraphDef& graph, const GraphIndex& index)
    : graph_(graph), index_(index), changes_(index.size(), false), straggles_(index.size(), false) {
  for (int f = 1; f < index.frames(); ++f) {
    for (const int end : index.frame(f).ends) {
      for (const int merge : index[end].readers) {
        if (!IsOp(graph.node(merge), "Merge") || index[merge].inputs.size() != 2) continue;
        // Back from the NextIteration: is it the Merge's own value, handed through?
        int from = end;
        for (int steps = 0; from != merge && steps < index.size() && !index[from].inputs.empty(); ++steps) {
          const tensorflow::NodeDef& node = graph.node(from);
          if (from != end && !IsPassThrough(node) && !IsOp(node, "Switch")) break;
          from = index[from].inputs[0].node;
        }
        if (from == merge) continue;
        changes_[merge] = true;
        for (const TensorRef& input : index[merge].inputs) {
          if (IsEnter(graph.node(input.node))) changes_[input.node] = true;
        }
        for (const int reader : index[merge].readers) {
          if (!IsOp(graph.node(reader), "Switch")) continue;
          for (const int exit : index[reader].readers) {
            if (IsExit(graph.node(exit))) changes_[exit] = true;
          }
        }
      }
    }
  }
  nodes_in_.resize(index.frames());
  for (int i = 0; i < index.size(); ++i) {
    for (int f = index[i].frame; f > 0; f = index.frame(f).parent) nodes_in_[f].push_back(i);
  }
  marked_.assign(index.frames() > 1 ? index.size() : 0, 0);
  gates_.resize(index.frames());
  for (int f = 1; f < index.frames(); ++f) gates_[f] = FindGates(f);
  FindStragglers();
  FindThoseThatDependOnOverlap();
}

bool Loops::MindsHolders(int sum) const {
  const std::vector<TensorRef>& terms = index_[sum].inputs;
  if (!index_[sum].live || !OrderDependsOnHolders(graph_.node(sum).op(), terms.size())) return false;
  // The first term that nobody else holds is taken over, and the first two may change places.
  return std::none_of(terms.begin(), terms.begin() + 2, [this](const TensorRef& term) {
    return index_[term.node].readers.size() == 1 && SharedInput(graph_.node(term.node), term.port) < 0;
  });
}

std::vector<int> Loops::ReadersOfTerms(int sum) const {
  std::vector<int> all;
  for (TensorRef term : index_[sum].inputs) {
    for (int steps = 0; steps < index_.size(); ++steps) {
      const std::vector<int>& readers = index_[term.node].readers;
      all.insert(all.end(), readers.begin(), readers.end());
      const int shared = SharedInput(graph_.node(term.node), term.port);
      if (shared < 0 || shared >= static_cast<int>(index_[term.node].inputs.size())) break;
      term = index_[term.node].inputs[shared];
    }
  }
  return all;
}

void Loops::FindThoseThatDependOnOverlap() {
  by_overlap_.assign(index_.frames(), false);
  if (index_.frames() < 2) return;
  const auto mark_all = [this](int f) {
    for (; f > 0; f = index_.frame(f).parent) by_overlap_[f] = true;
  };
  for (int i = 0; i < index_.size(); ++i) {
    if (straggles_[i] && HasSeed(graph_.node(i))) mark_all(index_[i].frame);
    if (!MindsHolders(i)) continue;
    for (const int reader : ReadersOfTerms(i)) {
      if (straggles_[i] && IsNextIteration(graph_.node(reader))) mark_all(index_[i].frame);
      if (IsEnter(graph_.node(reader)) && index_[reader].frame > 0) by_overlap_[index_[reader].frame] = true;
    }
  }
}

void Loops::FindStragglers() {
  straggles_.assign(index_.size(), false);
  for (int f = 1; f < index_.frames(); ++f) {
    std::vector<int> ends = Gates(f);
    for (const Hold& hold : holds_) {
      if (index_[hold.gate].frame == f) ends.push_back(hold.node);
    }
    MarkBefore(ends, f);
    for (const int i : nodes_in_[f]) {
      if (!Marked(i)) straggles_[i] = true;
    }
  }
}

bool Loops::MayBeHeld(int node) const {
  if (index_[node].frame <= 0 || !index_[node].live || IsControlFlow(graph_.node(node).op())) return false;
  const std::vector<int>& gates = Gates(index_[node].frame);
  return !gates.empty() && index_.Implies(index_[gates[0]].region, index_[node].region);
}

bool Loops::DependsOnOverlap(int frame) const {
  for (int f = frame; f > 0; f = index_.frame(f).parent) {
    if (by_overlap_[f]) return true;
  }
  return false;
}

void Loops::HoldIterations(int frame) {
  if (frame <= 0 || DependsOnOverlap(frame)) return;
  const std::vector<int>& gates = Gates(frame);
  if (gates.empty()) return;
  const auto may_be_held = [&](int node) {
    return straggles_[node] && index_[node].live && index_[node].frame == frame &&
           !IsControlFlow(graph_.node(node).op()) && index_.Implies(index_[gates[0]].region, index_[node].region);
  };
  for (const int i : nodes_in_[frame]) {
    if (!may_be_held(i)) continue;
    // The last ones are enough.
    const std::vector<int>& readers = index_[i].readers;
    if (std::none_of(readers.begin(), readers.end(), may_be_held)) holds_.push_back({i, gates[0]});
  }
  if (!holds_.empty()) FindStragglers();
}

std::vector<Condition> Loops::OutcomesIn(int frame) const {
  std::set<int> regions;
  for (const int node : nodes_in_[frame]) {
    if (index_[node].region >= 0) regions.insert(index_[node].region);
  }
  std::map<std::pair<int, int>, std::set<int>> outcomes;  // by predicate
  for (const int region : regions) {
    for (const Condition& condition : index_.region(region).conditions) {
      const bool of_branches = condition.port >= 0 && !IsOp(graph_.node(condition.node), "LoopCond");
      if (of_branches && index_[condition.node].frame == frame) {
        outcomes[{condition.node, condition.port}].insert(condition.outcome);
      }
    }
  }
  std::vector<Condition> all;
  for (auto& [predicate, of_predicate] : outcomes) {
    if (of_predicate.size() == 1) of_predicate.insert(-1);  // the other branch hands on what it is given
    for (const int outcome : of_predicate) all.push_back({predicate.first, predicate.second, outcome});
  }
  if (all.size() > kMostOutcomes) all.clear();
  return all;
}

bool Loops::Excludes(const Condition* outcome, int node) const {
  if (outcome == nullptr || index_[node].region < 0) return false;
  const std::set<Condition>& conditions = index_.region(index_[node].region).conditions;
  return std::any_of(conditions.begin(), conditions.end(), [outcome](const Condition& other) {
    return other.node == outcome->node && other.port == outcome->port && other.outcome != outcome->outcome;
  });
}

void Loops::MarkBefore(const std::vector<int>& ends, int frame) {
  const std::vector<Condition> outcomes = OutcomesIn(frame);
  if (outcomes.empty()) {
    MarkWhere(nullptr, ends, frame);
    return;
  }
  std::vector<int> candidates = nodes_in_[frame];
  for (const Condition& outcome : outcomes) {
    MarkWhere(&outcome, ends, frame);
    const auto not_before = [this](int node) { return !Marked(node); };
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), not_before), candidates.end());
  }
  ++mark_;
  for (const int node : candidates) marked_[node] = mark_;
}

void Loops::MarkWhere(const Condition* outcome, const std::vector<int>& ends, int frame) {
  ++mark_;
  std::vector<int> pending;
  const auto visit = [&](int node) {
    if (Marked(node)) return;
    marked_[node] = mark_;
    // What is before the loop cannot depend on it.
    if (!(IsEnter(graph_.node(node)) && index_[node].frame == frame)) pending.push_back(node);
  };
  for (const int end : ends) visit(end);
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    // It runs as soon as one of its inputs is there.
    const bool merges = IsOp(graph_.node(node), "Merge") && !Excludes(outcome, node);
    for (const TensorRef& input : index_[node].inputs) {
      const bool iteration_before = IsNextIteration(graph_.node(input.node)) && index_[input.node].frame == frame;
      if (!iteration_before && !(merges && Excludes(outcome, input.node))) visit(input.node);
    }
    for (const int control : index_[node].controls) visit(control);
  }
}

std::vector<int> Loops::FindGates(int frame) {
  std::vector<int> gates;
  const int cond = index_.frame(frame).loop_cond;
  if (cond < 0) return gates;
  MarkBefore({cond}, frame);
  for (const int end : index_.frame(frame).ends) {
    const std::vector<int>& readers = index_[end].readers;
    if (std::any_of(readers.begin(), readers.end(), [&](int reader) { return Marked(reader); })) gates.push_back(end);
  }
  return gates;
}

bool Loops::MayBePlanned(int region) const {
  const Region& place = index_.region(region);
  if (DependsOnOverlap(place.frame)) return false;
  for (int f = place.frame; f > 0; f = index_.frame(f).parent) {
    const int cond = index_.frame(f).loop_cond;
    if (cond < 0) return false;
    // Nodes that are not in the body itself run once more than it does.
    const bool goes_on = f != place.frame || std::any_of(place.conditions.begin(), place.conditions.end(),
                                                         [cond](const Condition& c) { return c.node == cond; });
    if (!goes_on) return false;
  }
  return true;
}

}  // namespace lms
