#include "cc/tf/sizes/tensor_lists.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cc/core/base/capped_product.h"
#include "cc/core/graph/node_names.h"
#include "cc/tf/graph/loop_variables.h"
#include "cc/tf/graph/op_traits.h"
#include "cc/tf/graph/own_ops.h"
#include "cc/tf/graph/small_tensor.h"
#include "cc/tf/sizes/sized_op.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

constexpr int kMostListDepth = 64;
constexpr int kMostPasses = 8;  // over all loops: as deep as their bounds hang on each other

bool HasType(const tensorflow::NodeDef& node, tensorflow::DataType type) {
  const auto attr = node.attr().find("T");
  return attr != node.attr().end() && attr->second.type() == type;
}

bool MakesEmpty(const std::string& op) { return op == "EmptyTensorList" || op == "TensorListReserve"; }

// Is what the node makes a list of a tensor's rows in that tensor's storage?
bool KeepsRows(const tensorflow::NodeDef& node) {
  const auto label = node.attr().find(kKernelAttr);
  return label != node.attr().end() && (label->second.s() == kRowsLabel || label->second.s() == kReversedRowsLabel);
}

bool Adds(const std::string& op) { return op == "AddN" || op == "Add" || op == "AddV2"; }

}  // namespace

TensorLists::TensorLists(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes,
                         const Loops& loops)
    : graph_(graph), index_(index), sizes_(sizes), loops_(loops), list_of_(index.size(), -1) {
  FindTrips();
  FindLists();
  FindRowBytes();
  AddElements();
}

TensorSize TensorLists::SizeOf(const TensorRef& tensor) const {
  const std::vector<TensorSize>& outputs = sizes_.Of(graph_.node(tensor.node).name()).outputs;
  return tensor.port < static_cast<int>(outputs.size()) ? outputs[tensor.port] : TensorSize();
}

int64_t TensorLists::ConstantOf(TensorRef tensor, int depth) const {
  for (; depth < kMostListDepth; ++depth) {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
    if (node.op() == "Const") return WholeConstant(node);
    if (IsExit(node) && loops_.Changes(tensor.node)) {
      // A loop's counter, when it has ended.
      const bool counts = !inputs.empty() && (Counts(inputs[0].node, tensorflow::DT_INT32) ||
                                              Counts(inputs[0].node, tensorflow::DT_INT64));
      return counts ? trips_[index_[tensor.node].frame] : -1;
    }
    const bool merge = node.op() == "Merge" && !loops_.Changes(tensor.node);
    const bool passes = IsPassThrough(node) || node.op() == "Switch" || IsEnter(node) || IsExit(node) || merge;
    if (!passes || inputs.empty()) {
      // Made of shapes, such as the length of the sequences.
      return sizes_.ScalarOf(node.name(), tensor.port).value_or(-1);
    }
    tensor = inputs[0];
  }
  return -1;
}

bool TensorLists::Counts(int fork, tensorflow::DataType type) const {
  LoopVariable variable;
  return ReadLoopVariable(graph_, index_, loops_, fork, &variable) &&
         CountsIterations(graph_, index_, loops_, variable, type);
}

void TensorLists::FindTrips() {
  trips_.assign(index_.frames(), -1);
  fills_.assign(index_.frames(), -1);
  FindBounds();
  open_.assign(index_.frames(), false);
  for (int f = 1; f < index_.frames(); ++f) {
    const int cond = index_.frame(f).loop_cond;
    open_[f] = trips_[f] < 0 && cond >= 0;
    if (open_[f]) trips_[f] = sizes_.RecordedTrips(graph_.node(cond).name());
  }
  FindBounds();
}

std::vector<TensorLists::OpenLoop> TensorLists::OpenLoops() const {
  std::vector<OpenLoop> loops;
  for (int f = 1; f < index_.frames(); ++f) {
    if (!open_[f] || fills_[f] < 0) continue;
    int counter = -1;  // one of 32 bits where there is one: the host has its value on every device
    for (const int i : loops_.NodesIn(f)) {
      if (index_[i].frame != f || !index_[i].live) continue;
      if (counter < 0 && Counts(i, tensorflow::DT_INT64)) counter = i;
      if (!Counts(i, tensorflow::DT_INT32)) continue;
      counter = i;
      break;
    }
    if (counter < 0) continue;
    loops.push_back({graph_.node(index_.frame(f).loop_cond).name(), graph_.node(counter).name(), fills_[f]});
  }
  return loops;
}

void TensorLists::FindBounds() {
  // A loop's bound may be the counter of another one: a gradient goes round as often as what it is the gradient of.
  std::vector<int64_t> before;
  for (int passes = 0; passes < kMostPasses && trips_ != before; ++passes) {
    before = trips_;
    for (int f = 1; f < index_.frames(); ++f) FindBound(f);
  }
}

bool TensorLists::FillsSegments(int frame) const {
  const int cond = index_.frame(frame).loop_cond;
  return cond >= 0 && graph_.node(cond).attr().count(kMostTripsAttr) != 0;
}

void TensorLists::FindBound(int f) {
  // The conditions of the loop that are a counter below a constant; it ends with the first of them.
  std::vector<int> pending;
  if (FillsSegments(f)) trips_[f] = graph_.node(index_.frame(f).loop_cond).attr().at(kMostTripsAttr).i();
  if (index_.frame(f).loop_cond >= 0) pending.push_back(index_.frame(f).loop_cond);
  for (size_t next = 0; next < pending.size() && pending.size() < kMostListDepth; ++next) {
    const int node = pending[next];
    const std::string& op = graph_.node(node).op();
    if (op == "LoopCond" || op == "LogicalAnd" || op == "Identity") {
      for (const TensorRef& input : index_[node].inputs) pending.push_back(input.node);
    } else if (op == "Less" && index_[node].inputs.size() == 2) {
      const int counter = index_[node].inputs[0].node;
      if (graph_.node(counter).op() != "Merge" || !loops_.Changes(counter)) continue;
      const int64_t start = ConstantOf(index_[counter].inputs[0], 0);
      const int64_t bound = ConstantOf(index_[node].inputs[1], 0);
      if (start != 0 || bound < 0) continue;
      trips_[f] = trips_[f] < 0 ? bound : std::min(trips_[f], bound);
    }
  }
}

bool TensorLists::HandsOn(int node, size_t input) const {
  const tensorflow::NodeDef& def = graph_.node(node);
  const std::string& op = def.op();
  if (op == "TensorListPushBack" || op == "TensorListSetItem" || op == "TensorListPopBack" ||
      op == "TensorListResize" || op == "Identity" || op == "Switch" || IsEnter(def) || IsExit(def) ||
      IsNextIteration(def)) {
    return input == 0;
  }
  return op == "Merge" || (Adds(op) && HasType(def, tensorflow::DT_VARIANT));
}

int TensorLists::Root(int list) const {
  while (parent_[list] != list) list = parent_[list] = parent_[parent_[list]];
  return list;
}

void TensorLists::Join(int a, int b) { parent_[Root(a)] = Root(b); }

int TensorLists::NewList(List list) {
  parent_.push_back(static_cast<int>(lists_.size()));
  lists_.push_back(list);
  return parent_.back();
}

bool TensorLists::MakesList(int node) const {
  const tensorflow::NodeDef& def = graph_.node(node);
  if (MakesEmpty(def.op()) || def.op() == kListOfRowsOp) return true;
  return def.op() == "ZerosLike" && HasType(def, tensorflow::DT_VARIANT) && !OfOptional(node);
}

bool TensorLists::OfOptional(int node) const {
  for (int depth = 0; depth < kMostListDepth && !index_[node].inputs.empty(); ++depth) {
    node = index_[node].inputs[0].node;
    if (graph_.node(node).op().rfind("Optional", 0) == 0) return true;
  }
  return false;
}

void TensorLists::FindLists() {
  std::vector<int> pending;
  for (int i = 0; i < index_.size(); ++i) {
    if (!index_[i].live || !MakesList(i)) continue;
    const std::vector<TensorRef>& inputs = index_[i].inputs;
    List list;
    list.maker = i;
    if (graph_.node(i).op() == kListOfRowsOp && !inputs.empty()) {
      const TensorSize size = SizeOf(inputs[0]);
      list.full = true;
      list.in_rows = KeepsRows(graph_.node(i));
      list.bytes = size.bytes;
      list.known = size.known;
      list.assumptions = size.assumptions;
    } else if (inputs.size() == 2) {
      list.elements = ConstantOf(inputs[1], 0);
    }
    list_of_[i] = NewList(list);
    pending.push_back(i);
  }
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const int reader : index_[node].readers) {
      if (!index_[reader].live || MakesList(reader)) continue;
      for (size_t i = 0; i < index_[reader].inputs.size(); ++i) {
        const TensorRef& input = index_[reader].inputs[i];
        const bool list = input.node == node && (input.port == 0 || graph_.node(node).op() == "Switch");
        if (!list || !HandsOn(reader, i)) continue;
        if (list_of_[reader] < 0 && IsEnter(graph_.node(reader)) && MakesEmpty(graph_.node(node).op())) {
          list_of_[reader] = NewList(lists_[list_of_[node]]);
          pending.push_back(reader);
          continue;
        }
        if (list_of_[reader] >= 0) {
          Join(list_of_[node], list_of_[reader]);
          continue;
        }
        list_of_[reader] = list_of_[node];
        pending.push_back(reader);
      }
    }
  }
}

// Where the storage of a tensor comes from, seen from within an iteration.
TensorLists::Source TensorLists::SourceOf(TensorRef tensor) const {
  for (int steps = 0; steps < kMostListDepth; ++steps) {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    const std::vector<TensorRef>& inputs = index_[tensor.node].inputs;
    if (node.op() == "TensorListGetItem" || (node.op() == "TensorListPopBack" && tensor.port == 1)) {
      return {Source::kElement, inputs[0]};
    }
    if (IsEnter(node) || node.op() == "ReadVariableOp" || node.op() == "Const" || node.op() == "_Arg") {
      return {Source::kOutside, tensor};
    }
    if (node.op() == "Merge") {
      const auto next = std::find_if(inputs.begin(), inputs.end(), [this](const TensorRef& input) {
        return IsNextIteration(graph_.node(input.node));
      });
      if (next == inputs.end()) return {Source::kOwn, tensor};
      if (!loops_.Changes(tensor.node)) return {Source::kOutside, tensor};
      tensor = *next;
      continue;
    }
    const int shared = SharedInput(node, tensor.port);
    if (shared < 0 || shared >= static_cast<int>(inputs.size())) return {Source::kOwn, tensor};
    tensor = inputs[shared];
  }
  return {Source::kOwn, tensor};
}

void TensorLists::AddWhole(int64_t count, int64_t bytes, List* list) {
  if (list->whole_bytes < 0) return;
  const bool known = count >= 0 && bytes >= 0;
  list->whole_bytes = known ? std::min(kMostBytes, list->whole_bytes + CappedProduct(count, bytes)) : -1;
}

void TensorLists::FindRowBytes() {
  for (int i = 0; i < index_.size(); ++i) {
    const std::string& op = graph_.node(i).op();
    const bool pops = op == "TensorListPopBack";
    if (!index_[i].live || index_[i].inputs.empty() || !(pops || op == "TensorListGetItem")) continue;
    const int list = list_of_[index_[i].inputs[0].node];
    if (list < 0) continue;
    const TensorSize size = SizeOf({i, pops ? 1 : 0});
    int64_t& bytes = lists_[list].row_bytes;
    bytes = size.known && size.assumptions == 0 && (bytes == 0 || bytes == size.bytes) ? size.bytes : -1;
  }
}

void TensorLists::AddElements() {
  std::vector<std::pair<int, TensorRef>> replacing;  // what puts elements into full lists, and their storage
  // By storage: the list that had it first, and of how many iterations lists hold it.
  std::map<std::pair<int, int>, std::pair<int, int64_t>> held;
  for (int i = 0; i < index_.size(); ++i) {
    const std::string& op = graph_.node(i).op();
    const bool push = op == "TensorListPushBack";
    if (!index_[i].live || list_of_[i] < 0 || !(push || op == "TensorListSetItem")) continue;
    const size_t item = push ? 1 : 2;
    if (index_[i].inputs.size() <= item) continue;
    const Source source = SourceOf(index_[i].inputs[item]);
    const TensorSize size = SizeOf(index_[i].inputs[item]);
    List& list = lists_[list_of_[i]];
    list.element_bytes = std::max(list.element_bytes, size.bytes);
    list.assumptions |= size.assumptions;
    list.replaced = list.replaced || source.kind != Source::kOutside;
    if (source.kind == Source::kElement) {
      const int other = list_of_[source.tensor.node];
      if (other >= 0 && other != list_of_[i]) lists_[other].taken = true;
    }
    if (list.full) {
      if (source.kind == Source::kOwn) replacing.emplace_back(i, source.tensor);
      continue;
    }
    const int frame = std::max(0, index_[i].frame);
    const bool there = index_[i].frame == index_[list.maker].frame;
    const bool once = there || (!push && graph_.node(index_[i].inputs[1].node).op() == "Const");
    int64_t count = once ? 1 : list.elements > 0 ? list.elements : trips_[frame];
    // A shape is small, whatever its rank.
    const bool shape = graph_.node(source.tensor.node).op() == "TensorListElementShape";
    AddWhole(count, size.known || shape ? size.bytes : -1, &list);
    if (source.kind == Source::kOutside) continue;
    if (source.kind == Source::kElement) {
      if (list_of_[source.tensor.node] >= 0) Join(list_of_[i], list_of_[source.tensor.node]);
      continue;
    }
    if (FillsSegments(frame)) {
      // It is emptied before the next one comes, and when anything else runs one element is out of it.
      list.segment = true;
      if (!once) count = trips_[frame] - 1;
    }
    if (!once && list.elements <= 0) fills_[frame] = std::max<int64_t>(0, fills_[frame]);
    list.grows = list.grows && !there && index_[source.tensor.node].frame > 0;
    made_by_[source.tensor.node].push_back(list_of_[i]);
    // What only every few iterations keep is counted by itself: others may let go of theirs long before.
    if (!push && IsLoopName(graph_.node(list.maker).name())) {
      list.known = list.known && size.known && count >= 0;
      list.bytes = std::min(kMostBytes, list.bytes + CappedProduct(std::max<int64_t>(0, count), size.bytes));
      continue;
    }
    // Of lists that share storage one may have more of it than the others.
    const auto [counted, is_new] =
        held.emplace(std::make_pair(source.tensor.node, source.tensor.port), std::make_pair(list_of_[i], int64_t{0}));
    if (!is_new) Join(list_of_[i], counted->second.first);
    if (is_new && fills_[frame] >= 0) fills_[frame] = std::min(kMostBytes, fills_[frame] + size.bytes);
    const int64_t more = std::max<int64_t>(0, count) - counted->second.second;
    list.known = list.known && (size.known || shape) && (count >= 0 || !is_new);
    if (more > 0) {
      list.bytes = std::min(kMostBytes, list.bytes + CappedProduct(more, size.bytes));
      if (count > 1 && counted->second.second <= 1) list.step_bytes += size.bytes;
      counted->second.second += more;
    }
  }
  for (const auto& [node, storage] : replacing) {
    List& list = lists_[list_of_[node]];
    if (!list.taken) continue;
    const auto [counted, is_new] =
        held.emplace(std::make_pair(storage.node, storage.port), std::make_pair(list_of_[node], int64_t{0}));
    if (!is_new) {
      Join(list_of_[node], counted->second.first);
      continue;
    }
    const bool once = index_[node].frame == index_[list.maker].frame;
    counted->second.second = once ? 1 : std::max<int64_t>(0, trips_[std::max(0, index_[node].frame)]);
    list.more_bytes += CappedProduct(counted->second.second, SizeOf(storage).bytes);
  }
  // What is made of a stack of another list, whose shape inference may not know, takes what that list does; zeros take
  // as much as what they are made like.
  for (List& list : lists_) {
    const std::vector<TensorRef>& inputs = index_[list.maker].inputs;
    if (graph_.node(list.maker).op() == kListOfRowsOp && !inputs.empty()) {
      const TensorSize size = SizeOf(inputs[0]);
      const Source source = SourceOf(inputs[0]);
      const bool stack = graph_.node(source.tensor.node).op() == "TensorListStack";
      const int64_t stacked = stack ? BytesOf(index_[source.tensor.node].inputs[0].node) : -1;
      if ((!size.known || size.assumptions != 0) && stacked >= 0) {
        list.bytes = stacked;
        list.known = true;
      }
    }
  }
  for (List& list : lists_) {
    if (graph_.node(list.maker).op() != "ZerosLike" || index_[list.maker].inputs.empty()) continue;
    const int like = list_of_[index_[list.maker].inputs[0].node];
    list.full = true;
    const int64_t whole = like < 0 ? -1 : lists_[like].full ? lists_[like].bytes : lists_[like].whole_bytes;
    list.known = whole >= 0 && lists_[like].known;
    list.bytes = std::max<int64_t>(0, whole);
    list.element_bytes = like < 0 ? 0 : lists_[like].element_bytes;
  }
  own_bytes_.assign(lists_.size(), 0);
  for (size_t l = 0; l < lists_.size(); ++l) {
    int64_t& bytes = own_bytes_[Root(static_cast<int>(l))];
    bytes = bytes < 0 || !lists_[l].known ? -1 : bytes + lists_[l].bytes + lists_[l].more_bytes;
  }
  group_.assign(lists_.size(), -1);
  std::map<int, int> by_root;
  std::map<int, bool> at_once;  // by group: does one of its lists get its storage in one piece?
  for (size_t l = 0; l < lists_.size(); ++l) {
    const auto [group, is_new] = by_root.emplace(Root(static_cast<int>(l)), static_cast<int>(groups_.size()));
    if (is_new) groups_.emplace_back().grows = true;
    group_[l] = group->second;
    Group& all = groups_[group->second];
    if (lists_[l].in_rows && OnlyRows(lists_[l].maker)) {
      all.rows_of = index_[lists_[l].maker].inputs[0];
    } else {
      all.bytes = std::min(kMostBytes, all.bytes + lists_[l].bytes + lists_[l].more_bytes);
    }
    all.step_bytes = std::min(kMostBytes, all.step_bytes + lists_[l].step_bytes);
    const bool of_a_tensor = graph_.node(lists_[l].maker).op() == kListOfRowsOp;
    if (lists_[l].bytes > 0) at_once[group->second] |= of_a_tensor || lists_[l].element_bytes == 0;
    all.element_bytes = at_once[group->second] ? 0 : std::max(all.element_bytes, lists_[l].element_bytes);
    all.known = all.known && lists_[l].known;
    all.assumptions |= lists_[l].assumptions;
    all.grows = all.grows && lists_[l].grows && !lists_[l].full;
  }
}

std::vector<int> TensorLists::GroupsMadeBy(int node) const {
  std::vector<int> groups;
  const auto found = made_by_.find(node);
  if (found == made_by_.end()) return groups;
  for (const int list : found->second) groups.push_back(group_[list]);
  return groups;
}

int TensorLists::GroupOfElement(const TensorRef& tensor) const {
  const std::string& op = graph_.node(tensor.node).op();
  const bool element = op == "TensorListGetItem" || (op == "TensorListPopBack" && tensor.port == 1);
  if (!element || index_[tensor.node].inputs.empty()) return -1;
  const int list = list_of_[index_[tensor.node].inputs[0].node];
  if (list >= 0 && lists_[list].segment && op == "TensorListPopBack") return -1;
  return GroupOf(index_[tensor.node].inputs[0].node);
}

bool TensorLists::OnlyRows(int node) const {
  const int list = list_of_[node];
  if (list < 0 || lists_[list].maker != node || graph_.node(node).op() != kListOfRowsOp) return false;
  const bool aligned = lists_[list].row_bytes > 0 && lists_[list].row_bytes % kRowAlignment == 0;
  return aligned && !lists_[list].replaced && lists_[list].known && own_bytes_[Root(list)] == lists_[list].bytes;
}

bool TensorLists::EmptyYet(int node) const { return list_of_[node] >= 0 && MakesEmpty(graph_.node(node).op()); }

bool TensorLists::BeganEmpty(int node) const {
  return list_of_[node] >= 0 && !lists_[list_of_[node]].full && IsControlFlow(graph_.node(node).op());
}

int64_t TensorLists::BytesOf(int node) const {
  if (list_of_[node] < 0) return -1;
  const List& list = lists_[list_of_[node]];
  if (list.full) return list.known ? list.bytes : -1;
  return list.elements > 0 && list.element_bytes > 0
             ? std::min(kMostBytes, CappedProduct(list.elements, list.element_bytes))
             : -1;
}

int64_t TensorLists::OverlapOf(int frame) const {
  int64_t ahead = 0;
  int64_t popped = 0;
  std::set<int> groups;
  std::set<std::pair<int, int>> waiting;
  int64_t pending = 0;
  for (const int i : loops_.NodesIn(frame)) {
    if (index_[i].frame != frame || !index_[i].live) continue;
    const tensorflow::NodeDef& node = graph_.node(i);
    if (IsEnter(node)) {
      const auto parallel = node.attr().find("parallel_iterations");
      if (parallel != node.attr().end()) ahead = std::max<int64_t>(ahead, parallel->second.i());
    }
    if (node.op() == "TensorListPopBack" && GroupOf(i) >= 0 && groups.insert(GroupOf(i)).second) {
      popped += groups_[GroupOf(i)].step_bytes;
    }
    if (!Adds(node.op()) || !loops_.Straggles(i)) continue;
    // A sum that is carried from one iteration to the next.
    bool carried = false;
    for (const int reader : index_[i].readers) carried = carried || IsNextIteration(graph_.node(reader));
    if (!carried) continue;
    std::vector<TensorRef> terms;
    bool sums = false;
    for (const TensorRef& input : index_[i].inputs) {
      const Source source = SourceOf(input);
      if (source.kind == Source::kOwn && source.tensor.node == i) {
        sums = true;
      } else if (source.kind == Source::kOwn && loops_.Straggles(source.tensor.node)) {
        terms.push_back(source.tensor);
      }
    }
    for (const TensorRef& term : terms) {
      if (!sums || !waiting.emplace(term.node, term.port).second) continue;
      pending += SizeOf(term).bytes;
    }
  }
  if (trips_[frame] >= 0) ahead = std::min(ahead, trips_[frame]);
  return std::min(kMostBytes, CappedProduct(std::max<int64_t>(0, ahead - 1), std::max<int64_t>(0, pending - popped)));
}

}  // namespace lms
