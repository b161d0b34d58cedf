#include "cc/tf/graph/graph_index.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace lms {
namespace {

// Loops within loops; each of the nodes counts once for each.
constexpr int kMostFrames = 100;
// Conditions of all nodes together, of some 150 bytes each: what nested branches take grows with nodes times depth.
constexpr int64_t kMostConditions = 3000000;

bool IsOp(const tensorflow::NodeDef& node, std::string_view name) {
  std::string_view op = node.op();
  if (op.substr(0, 3) == "Ref") op.remove_prefix(3);
  return op == name;
}

bool IsSwitch(const tensorflow::NodeDef& node) { return IsOp(node, "Switch") || node.op() == "_SwitchN"; }

}  // namespace

absl::Status GraphIndex::Build(const tensorflow::grappler::GrapplerItem& item, const Deadline& deadline) {
  Pace pace(deadline);
  absl::Status status = Resolve(item.graph);
  if (!status.ok()) return status;
  FindPreserved(item);
  FindLive(item);
  FindFrames(item.graph, &pace);
  FindCycles(item.graph);
  FindBranches(item.graph, &pace);
  return status;
}

int GraphIndex::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

absl::Status GraphIndex::Resolve(const tensorflow::GraphDef& graph) {
  nodes_.assign(graph.node_size(), NodeIndex());
  by_name_.reserve(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!by_name_.emplace(graph.node(i).name(), i).second) {
      return absl::InvalidArgumentError("two nodes are called " + graph.node(i).name());
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& input : graph.node(i).input()) {
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const int from = Find(id.node());
      if (from < 0)
        return absl::InvalidArgumentError(graph.node(i).name() + " reads " + input + ", which does not exist");
      if (id.index() < 0) {
        nodes_[i].controls.push_back(from);
      } else {
        nodes_[i].inputs.push_back({from, id.index()});
      }
      nodes_[from].readers.push_back(i);
    }
  }
  return absl::OkStatus();
}

void GraphIndex::FindPreserved(const tensorflow::grappler::GrapplerItem& item) {
  // Not item.NodesToPreserve(): in a function that names every stateful op too, whose results are like any other's.
  preserved_.assign(nodes_.size(), false);
  const auto preserve = [this](const std::string& tensor) {
    const int node = Find(tensorflow::ParseTensorName(tensor).node());
    if (node >= 0) preserved_[node] = true;
  };
  for (const std::string& fetch : item.fetch) preserve(fetch);
  for (const auto& feed : item.feed) preserve(feed.first);
  fetched_ = preserved_;
  for (const std::string& name : item.keep_ops) preserve(name);
  for (const std::string& name : item.init_ops) preserve(name);
  for (const std::string* name : {&item.save_op, &item.restore_op, &item.save_restore_loc_tensor}) preserve(*name);
  for (const auto& runner : item.queue_runners) {
    for (const std::string& name : runner.enqueue_op_name()) preserve(name);
    preserve(runner.close_op_name());
    preserve(runner.cancel_op_name());
  }
}

void GraphIndex::FindLive(const tensorflow::grappler::GrapplerItem& item) {
  std::vector<int> pending;
  const auto visit = [&](int node) {
    if (nodes_[node].live) return;
    nodes_[node].live = true;
    pending.push_back(node);
  };
  const auto root = [&](int node) {
    nodes_[node].root = true;
    visit(node);
  };
  for (int i = 0; i < size(); ++i) {
    if (preserved_[i]) root(i);
  }
  if (!item.optimization_options().allow_pruning_stateful_and_dataset_ops) {
    // A function's ops with side effects run whether or not something depends on them.
    const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), item.graph.library());
    for (int i = 0; i < size(); ++i) {
      const tensorflow::OpDef* op_def = nullptr;
      if (!library.LookUpOpDef(item.graph.node(i).op(), &op_def).ok() || op_def->is_stateful()) root(i);
    }
  }
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const TensorRef& input : nodes_[node].inputs) visit(input.node);
    for (const int control : nodes_[node].controls) visit(control);
  }
}

void GraphIndex::FindFrames(const tensorflow::GraphDef& graph, Pace* pace) {
  // Everything that an Enter reaches before an Exit is inside some frame.
  std::vector<int> pending;
  for (int i = 0; i < size(); ++i) {
    if (IsOp(graph.node(i), "Enter")) pending.push_back(i);
  }
  for (const int enter : pending) nodes_[enter].in_frame = true;
  // The depth of nested frames: a node behind an inner Exit is still inside the outer frame.
  std::vector<int> depth(nodes_.size(), 0);
  for (const int enter : pending) depth[enter] = 1;
  std::deque<int> queue(pending.begin(), pending.end());
  // A loop that an inner one leads back into without an Exit would count up for ever, or for too long.
  constexpr int kMostDepth = 256;
  const int most_depth = std::min(kMostDepth, static_cast<int>(pending.size()));
  while (!queue.empty()) {
    const int node = queue.front();
    queue.pop_front();
    pace->Step(10 + static_cast<int64_t>(nodes_[node].readers.size()));
    const int below = IsOp(graph.node(node), "Exit") ? depth[node] - 1 : depth[node];
    for (const int reader : nodes_[node].readers) {
      const int inside = std::min(most_depth, below + (IsOp(graph.node(reader), "Enter") ? 1 : 0));
      if (inside > depth[reader]) {
        depth[reader] = inside;
        nodes_[reader].in_frame = true;
        queue.push_back(reader);
      }
    }
  }
}

void GraphIndex::FindCycles(const tensorflow::GraphDef& graph) {
  // Strongly connected components (Tarjan's algorithm, without recursion). Only loops have any with more than one node.
  cycle_ends_.clear();
  bool any = false;
  for (const auto& node : graph.node()) any |= IsOp(node, "NextIteration");
  if (!any) return;
  std::vector<int> number(nodes_.size(), -1);  // order of discovery
  std::vector<int> low(nodes_.size(), 0);
  std::vector<bool> open(nodes_.size(), false);
  std::vector<int> component;
  std::vector<std::pair<int, size_t>> path;  // node, the next of its readers
  int found = 0;
  const auto enter = [&](int node) {
    number[node] = low[node] = found++;
    open[node] = true;
    component.push_back(node);
    path.emplace_back(node, 0);
  };
  const auto close = [&](int root) {
    const auto first = std::find(component.rbegin(), component.rend(), root).base() - 1;
    std::vector<int> ends;
    for (auto node = first; node != component.end(); ++node) {
      open[*node] = false;
      if (IsOp(graph.node(*node), "NextIteration")) ends.push_back(*node);
    }
    if (component.end() - first > 1 && !ends.empty()) {
      for (auto node = first; node != component.end(); ++node)
        nodes_[*node].cycle = static_cast<int>(cycle_ends_.size());
      cycle_ends_.push_back(std::move(ends));
    }
    component.erase(first, component.end());
  };
  for (int start = 0; start < size(); ++start) {
    if (number[start] < 0) enter(start);
    while (!path.empty()) {
      const int node = path.back().first;
      if (path.back().second < nodes_[node].readers.size()) {
        const int reader = nodes_[node].readers[path.back().second++];
        if (number[reader] < 0) {
          enter(reader);
        } else if (open[reader]) {
          low[node] = std::min(low[node], number[reader]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[node]);
      if (low[node] == number[node]) close(node);
    }
  }
}

int GraphIndex::FrameOf(const tensorflow::GraphDef& graph, int node) {
  // The frame of what the node reads and waits for; an Enter's own is below that. -1 where they do not agree.
  int frame = -1;
  bool clear = true;
  const auto comes_from = [&](int input) {
    if (IsOp(graph.node(input), "NextIteration")) return;
    const int of_input = nodes_[input].frame;
    const int out = of_input > 0 && IsOp(graph.node(input), "Exit") ? frames_[of_input].parent : of_input;
    clear = clear && out >= 0 && (frame < 0 || frame == out);
    frame = out;
  };
  for (const TensorRef& input : nodes_[node].inputs) comes_from(input.node);
  for (const int control : nodes_[node].controls) comes_from(control);
  if (!clear) return -1;
  if (frame < 0) frame = 0;
  if (!IsOp(graph.node(node), "Enter")) return frame;
  const auto attr = graph.node(node).attr().find("frame_name");
  const std::string name = attr == graph.node(node).attr().end() ? std::string() : attr->second.s();
  const auto [found, is_new] = frame_ids_.emplace(std::make_pair(frame, name), frames());
  if (!is_new) return found->second;
  int depth = 1;
  for (int f = frame; f > 0; f = frames_[f].parent) ++depth;
  if (depth > kMostFrames) throw TooMuch("loops are nested more than " + std::to_string(kMostFrames) + " deep");
  frames_.push_back({name, frame, -1, {}});
  return found->second;
}

int GraphIndex::RegionOf(int node, const std::set<Condition>& conditions) {
  if (nodes_[node].frame < 0) return -1;
  const auto [found, is_new] = region_ids_.emplace(std::make_pair(nodes_[node].frame, conditions), regions());
  if (is_new) regions_.push_back({nodes_[node].frame, conditions});
  return found->second;
}

bool GraphIndex::Within(int inner, int outer) const {
  for (int f = inner; f > 0; f = frames_[f].parent) {
    if (frames_[f].parent == outer) return true;
  }
  return false;
}

bool GraphIndex::Implies(int b, int a) const {
  if (a < 0 || b < 0 || regions_[a].frame != regions_[b].frame) return false;
  const std::set<Condition>& more = regions_[b].conditions;
  const std::set<Condition>& fewer = regions_[a].conditions;
  return std::includes(more.begin(), more.end(), fewer.begin(), fewer.end());
}

bool GraphIndex::Exclusive(int a, int b) const {
  if (a < 0 || b < 0 || a == b) return false;
  const auto around = [this](int region, int frame) {
    return regions_[region].frame == frame || Within(regions_[region].frame, frame);
  };
  const std::set<Condition>& others = regions_[b].conditions;
  for (const Condition& condition : regions_[a].conditions) {
    const int frame = nodes_[condition.node].frame;
    if (condition.port < 0 || frame < 0 || frames_[frame].loop_cond == condition.node) continue;
    const auto same = others.lower_bound({condition.node, condition.port, std::numeric_limits<int>::min()});
    if (same == others.end() || same->node != condition.node || same->port != condition.port) continue;
    // A region with both outcomes never runs.
    if (same->outcome != condition.outcome && around(a, frame) && around(b, frame)) return true;
  }
  return false;
}

bool GraphIndex::SamePlace(int node, const GraphIndex& other, int other_node) const {
  const int mine = nodes_[node].region;
  const int theirs = other.nodes_[other_node].region;
  if (mine < 0 || theirs < 0) return mine == theirs;
  if (regions_[mine].conditions != other.regions_[theirs].conditions) return false;
  int f = nodes_[node].frame;
  int g = other.nodes_[other_node].frame;
  for (; f > 0 && g > 0; f = frames_[f].parent, g = other.frames_[g].parent) {
    if (frames_[f].name != other.frames_[g].name) return false;
  }
  return f == g;
}

void GraphIndex::FindBranches(const tensorflow::GraphDef& graph, Pace* pace) {
  // A node runs when, for each (predicate, outcome) in its set, the predicate has that outcome. A Merge runs in all
  // cases that its inputs cover, which leaves it what they have in common; where they do not decide by the same
  // predicates, it may run in none, and gets a condition of its own. That a loop goes on is a condition of its region,
  // up to the Exit, but makes nothing conditional. Each node is visited once, in topological order; nodes that a
  // strange graph keeps from being visited count as conditional.
  using Conditions = std::set<Condition>;
  frames_.assign(1, Frame());
  frame_ids_.clear();
  regions_.clear();
  region_ids_.clear();
  regions_.push_back({0, {}});
  region_ids_[{0, {}}] = 0;
  bool any = false;
  for (const auto& node : graph.node()) any |= IsSwitch(node) || IsOp(node, "Enter");
  if (!any) {
    for (NodeIndex& node : nodes_) node.frame = node.region = 0;
    return;
  }
  std::vector<int> waiting(nodes_.size(), 0);
  for (int i = 0; i < size(); ++i) {
    const NodeIndex& node = nodes_[i];
    for (const TensorRef& input : node.inputs) waiting[i] += IsOp(graph.node(input.node), "NextIteration") ? 0 : 1;
    waiting[i] += static_cast<int>(node.controls.size());
  }
  std::vector<Conditions> conditions(nodes_.size());
  std::vector<bool> visited(nodes_.size(), false);
  std::vector<int> queue;
  for (int i = 0; i < size(); ++i) {
    if (waiting[i] == 0) queue.push_back(i);
  }
  const auto predicate_of = [&](int node) {
    TensorRef predicate = nodes_[node].inputs[1];
    for (int steps = 0; steps < size() && graph.node(predicate.node).op() == "Identity"; ++steps) {
      predicate = nodes_[predicate.node].inputs[0];
    }
    return predicate;
  };
  // What the node hands on: behind an Exit the loop's own conditions are over.
  const auto handed_on = [&](int node) {
    Conditions result = conditions[node];
    if (!IsOp(graph.node(node), "Exit")) return result;
    for (auto c = result.begin(); c != result.end();) {
      const bool own = IsOp(graph.node(c->node), "LoopCond") && nodes_[c->node].frame == nodes_[node].frame;
      c = own ? result.erase(c) : std::next(c);
    }
    return result;
  };
  const auto from = [&](const TensorRef& input) {
    Conditions result = handed_on(input.node);
    if (!IsSwitch(graph.node(input.node)) || nodes_[input.node].inputs.size() < 2) return result;
    const TensorRef predicate = predicate_of(input.node);
    result.insert({predicate.node, predicate.port, input.port});
    return result;
  };
  const auto same_predicates = [](const Conditions& a, const Conditions& b) {
    const auto same = [](const Condition& x, const Condition& y) { return x.node == y.node && x.port == y.port; };
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
  };
  const auto common = [](const Conditions& a, const Conditions& b) {
    Conditions both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.begin()));
    return both;
  };
  int64_t held = 0;
  for (size_t next = 0; next < queue.size(); ++next) {
    const int i = queue[next];
    visited[i] = true;
    nodes_[i].frame = FrameOf(graph, i);
    Conditions& mine = conditions[i];
    std::vector<Conditions> theirs;
    for (const TensorRef& input : nodes_[i].inputs) {
      // Not what comes around a loop, even where it does not depend on this Merge and has been visited before it.
      if (!IsOp(graph.node(input.node), "NextIteration")) theirs.push_back(from(input));
    }
    if (IsOp(graph.node(i), "Merge")) {
      bool covered = true;
      for (size_t k = 0; k < theirs.size(); ++k) {
        covered = covered && same_predicates(theirs[0], theirs[k]);
        mine = k == 0 ? theirs[0] : common(mine, theirs[k]);
      }
      // Two inputs that differ in more than one predicate leave cases in which none arrives.
      covered = covered && (theirs.empty() || mine.size() + 1 >= theirs[0].size());
      if (!covered) mine.insert({i, -1, 0});
      // What it waits for besides may be a node of a branch that is not taken: it runs all the same.
    } else {
      for (const Conditions& inputs : theirs) mine.insert(inputs.begin(), inputs.end());
      for (const int control : nodes_[i].controls) {
        // Also of a Switch: it runs whatever it decides.
        const Conditions waited_for = handed_on(control);
        mine.insert(waited_for.begin(), waited_for.end());
      }
    }
    held += static_cast<int64_t>(mine.size());
    if (held > kMostConditions) {
      throw TooMuch("branches are nested too deeply: " + std::to_string(held) + " conditions in the first " +
                    std::to_string(next + 1) + " nodes");
    }
    pace->Step(20 + 50 * static_cast<int64_t>((theirs.size() + nodes_[i].controls.size() + 1) * (mine.size() + 1)));
    nodes_[i].conditional = std::any_of(mine.begin(), mine.end(), [&](const Condition& condition) {
      return !IsOp(graph.node(condition.node), "LoopCond");
    });
    nodes_[i].region = RegionOf(i, mine);
    if (nodes_[i].frame > 0) {
      Frame& frame = frames_[nodes_[i].frame];
      if (IsOp(graph.node(i), "LoopCond")) frame.loop_cond = i;
      if (IsOp(graph.node(i), "NextIteration")) frame.ends.push_back(i);
    }
    if (IsOp(graph.node(i), "NextIteration")) continue;  // its readers did not wait for it
    for (const int reader : nodes_[i].readers) {
      if (--waiting[reader] == 0) queue.push_back(reader);
    }
  }
  for (int i = 0; i < size(); ++i) {
    if (!visited[i]) nodes_[i].conditional = true;
  }
}

}  // namespace lms
