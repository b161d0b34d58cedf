#include "cc/tf/edge_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
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

std::vector<int> Sorted(const EdgeOrder& order, const std::vector<ReaderEdge>& edges) {
  std::vector<int> data;
  std::vector<int> control;
  order.Sort(edges, {}, &data, &control);
  EXPECT_TRUE(control.empty());
  return data;
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
  std::mt19937 random(1);
  const EdgeOrder order(100, false, &random);
  EXPECT_EQ(Sorted(order, Edges(8)), Counted(8));
  std::vector<int> data;
  std::vector<int> control;
  order.Sort(Edges(4), Edges(4, 20), &data, &control);
  EXPECT_EQ(data, Counted(4));
  EXPECT_EQ(control, Counted(4));
  std::set<std::vector<int>> seen;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 drawn(seed);
    seen.insert(Sorted(EdgeOrder(100, false, &drawn), Edges(40)));
  }
  EXPECT_GT(seen.size(), 10U);
}

TEST(EdgeOrder, NobodyIsLostWhereMemoryLiesInSeveralPieces) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    const EdgeOrder order(5000, seed % 2 == 1, &random);
    std::vector<int> data;
    std::vector<int> control;
    order.Sort(Edges(1000), Edges(500, 3000), &data, &control);
    std::sort(data.begin(), data.end());
    std::sort(control.begin(), control.end());
    EXPECT_EQ(data, Counted(1000));
    EXPECT_EQ(control, Counted(500));
    std::vector<int> roots = order.SortRoots(Edges(700, 4000));
    std::sort(roots.begin(), roots.end());
    EXPECT_EQ(roots, Counted(700));
  }
}

TEST(EdgeOrder, NeighboursStayInOrder) {
  // Eight edges begin at the same slot: of two of them the later one is found later, unless the table ends between
  // them.
  std::mt19937 random(3);
  int later = 0;
  constexpr int kDraws = 200;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<int> sorted = Sorted(EdgeOrder(100, false, &random), Edges(60));
    const auto at = [&sorted](int reader) { return std::find(sorted.begin(), sorted.end(), reader); };
    later += at(30) < at(31) ? 1 : 0;
  }
  EXPECT_GT(later, kDraws * 3 / 5);
}

TEST(EdgeOrder, TheSourceHasEdgesToTheSinkAsWell) {
  std::mt19937 random(5);
  const EdgeOrder order(50, false, &random);
  EXPECT_EQ(order.SortRoots(Edges(5)), Counted(5));
  EXPECT_EQ(order.SortRoots({}), std::vector<int>());
}

}  // namespace
}  // namespace lms
