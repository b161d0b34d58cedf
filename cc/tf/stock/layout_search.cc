#include "cc/tf/stock/layout_search.h"

#include <algorithm>
#include <utility>

namespace lms {
namespace {

constexpr int kNew = -1;  // the node that takes the place of two

}  // namespace

LayoutSearch::LayoutSearch(const GraphIndex& index, std::vector<std::vector<ReaderEdge>> readers,
                           const std::vector<ReaderEdge>& roots, int edges, EdgeDraws draws, uint32_t draw)
    // Merging adds fewer edges than there were.
    : index_(index), readers_(std::move(readers)), roots_(roots), next_(edges), order_(2 * edges, draws, draw) {}

std::vector<int> LayoutSearch::ReversePostOrder() {
  std::vector<std::pair<int, bool>> stack;  // and has all behind it been visited?
  for (const int root : order_.SortRoots(roots_)) stack.emplace_back(root, false);
  std::vector<bool> visited(readers_.size(), false);
  std::vector<int> found;
  while (!stack.empty()) {
    const auto [node, left] = stack.back();
    stack.pop_back();
    if (left) {
      found.push_back(node);
      continue;
    }
    if (visited[node]) continue;
    visited[node] = true;
    stack.emplace_back(node, true);
    order_.Visit(readers_[node], {}, [&](int reader) {
      if (!visited[reader]) stack.emplace_back(reader, false);
    });
  }
  std::reverse(found.begin(), found.end());
  return found;
}

void LayoutSearch::Merge(int part, int into) {
  std::vector<int> sources;  // of the new node, in the order in which its edges are added
  for (const TensorRef& input : index_[into].inputs) sources.push_back(input.node);
  for (const int node : {part, into}) {
    sources.insert(sources.end(), index_[node].controls.begin(), index_[node].controls.end());
  }
  for (const int source : sources) readers_[source].push_back({Number(), kNew});
  std::vector<ReaderEdge> handed;
  for (const int node : {part, into}) {
    for (const ReaderEdge& edge : readers_[node]) handed.push_back({Number(), edge.reader});
  }
  for (const int node : {part, into}) {
    for (const TensorRef& input : index_[node].inputs) Remove(input.node, node);
    for (const int from : index_[node].controls) Remove(from, node);
    for (const ReaderEdge& edge : readers_[node]) free_.push_back(edge.number);
    readers_[node].clear();
  }
  readers_[into] = std::move(handed);
  for (const int source : sources) {
    for (ReaderEdge& edge : readers_[source]) {
      if (edge.reader == kNew) edge.reader = into;
    }
  }
}

int LayoutSearch::Number() {
  if (free_.empty()) return next_++;
  const int number = free_.back();
  free_.pop_back();
  return number;
}

void LayoutSearch::Remove(int from, int reader) {
  std::vector<ReaderEdge>& edges = readers_[from];
  const auto edge =
      std::find_if(edges.begin(), edges.end(), [reader](const ReaderEdge& e) { return e.reader == reader; });
  if (edge == edges.end()) return;
  free_.push_back(edge->number);
  *edge = edges.back();
  edges.pop_back();
}

}  // namespace lms
