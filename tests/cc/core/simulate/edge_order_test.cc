#include "cc/core/simulate/edge_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace lms {
namespace {

// Edges numbered from `first` on, to readers 0, 1, …
std::vector<ReaderEdge> Edges(int count, int first = kSinkEdges) {
  std::vector<ReaderEdge> edges;
  for (int i = 0; i < count; ++i) edges.push_back({first + i, i});
  return edges;
}

std::vector<int> Counted(int count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> Visited(EdgeOrder order, const std::vector<ReaderEdge>& data,
                         const std::vector<ReaderEdge>& control = {}) {
  std::vector<int> visited;
  order.Visit(data, control, [&visited](int reader) { visited.push_back(reader); });
  return visited;
}

std::vector<int> InOrder(std::vector<int> list) {
  std::sort(list.begin(), list.end());
  return list;
}

TEST(EdgeOrder, ATableListsWhatADebuggerSaw) {
  // A function with 30 arguments and a constant, in a process of TensorFlow 2.21: the addresses of the source's edges
  // as they were added (three to the sink, then one to each root), and the order in which the executor ran the roots.
  std::vector<uint64_t> addresses{0x55555b4681f0, 0x55555b494508, 0x55555b494528};
  for (uint64_t i = 0; i < 31; ++i) addresses.push_back(0x55555b495448 + 32 * i);
  std::vector<int> roots;
  for (const int i : InTableOrder(addresses)) {
    if (i >= 3) roots.push_back(i - 1);  // the executor numbers them from 2 on
  }
  EXPECT_EQ(roots, (std::vector<int>{11, 18, 23, 5,  12, 16, 24, 29, 2, 13, 19, 25, 30, 3,  6, 20,
                                     26, 31, 7,  17, 27, 32, 8,  28, 4, 10, 14, 21, 9,  15, 22}));
}

TEST(EdgeOrder, EightKeepTheirOrderAndMoreDoNot) {
  for (const EdgeDraws draws : {EdgeDraws::kByAddress, EdgeDraws::kAny}) {
    EXPECT_EQ(Visited(EdgeOrder(100, draws, 0), Edges(8)), Counted(8));
    EXPECT_EQ(Visited(EdgeOrder(100, draws, 0), Edges(2), Edges(6, 20)), (std::vector<int>{0, 1, 0, 1, 2, 3, 4, 5}));
    std::set<std::vector<int>> seen;
    for (uint32_t draw = 0; draw < 20; ++draw) seen.insert(Visited(EdgeOrder(100, draws, draw), Edges(40)));
    EXPECT_GT(seen.size(), 10U);
  }
}

TEST(EdgeOrder, TheSameDrawIsTheSameOrder) {
  for (const EdgeDraws draws : {EdgeDraws::kByAddress, EdgeDraws::kAny}) {
    EXPECT_EQ(Visited(EdgeOrder(100, draws, 3), Edges(40)), Visited(EdgeOrder(100, draws, 3), Edges(40)));
  }
}

TEST(EdgeOrder, NobodyIsLostWhereMemoryLiesInSeveralPieces) {
  for (uint32_t draw = 0; draw < 8; ++draw) {
    EdgeOrder order(5000, draw % 2 == 1 ? EdgeDraws::kByAddress : EdgeDraws::kAny, draw);
    const std::vector<int> visited = Visited(order, Edges(1000), Edges(500, 3000));
    EXPECT_EQ(InOrder({visited.begin(), visited.begin() + 1000}), Counted(1000));
    EXPECT_EQ(InOrder({visited.begin() + 1000, visited.end()}), Counted(500));
    EXPECT_EQ(InOrder(order.SortRoots(Edges(700, 4000))), Counted(700));
  }
}

TEST(EdgeOrder, NeighboursStayInOrder) {
  // Eight edges begin at the same slot: of two of them the later one is found later, unless the table ends between
  // them.
  int later = 0;
  constexpr uint32_t kDraws = 200;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<int> sorted = Visited(EdgeOrder(100, EdgeDraws::kByAddress, draw), Edges(60));
    const auto at = [&sorted](int reader) { return std::find(sorted.begin(), sorted.end(), reader); };
    later += at(30) < at(31) ? 1 : 0;
  }
  EXPECT_GT(later, kDraws * 3 / 5);
}

TEST(EdgeOrder, DrawsAreSpreadOverThePlacesOfMemory) {
  // The reader that comes first is hardly ever the same in eight draws: they meet all parts of the table.
  std::set<int> first;
  for (uint32_t draw = 0; draw < 8; ++draw) {
    first.insert(Visited(EdgeOrder(100, EdgeDraws::kByAddress, draw), Edges(60))[0]);
  }
  EXPECT_GE(first.size(), 6U);
}

TEST(EdgeOrder, TheSourceHasEdgesToTheSinkAsWell) {
  EdgeOrder order(50, EdgeDraws::kByAddress, 5);
  EXPECT_EQ(order.SortRoots(Edges(5)), Counted(5));
  EXPECT_EQ(order.SortRoots({}), std::vector<int>());
}

}  // namespace
}  // namespace lms
