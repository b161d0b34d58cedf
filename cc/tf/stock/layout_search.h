// The depth-first search through a graph by which oneDNN's layout pass goes (mkl_layout_pass.cc; GetReversePostOrder).
//
// A search visits last what its node leads to first. Which of two nodes comes first is therefore decided by the order
// of edges, and that of many edges by where they lie in memory (edge_order.h). The pass merges nodes between its first
// search and its last, which changes that order: of few edges, the last takes the place of one that is removed.

#ifndef LMS_CC_TF_STOCK_LAYOUT_SEARCH_H_
#define LMS_CC_TF_STOCK_LAYOUT_SEARCH_H_

#include <cstdint>
#include <vector>

#include "cc/core/simulate/edge_order.h"
#include "cc/tf/graph/graph_index.h"

namespace lms {

class LayoutSearch {
 public:
  // `readers`: by node, in the order of their numbers; `roots`: what has no inputs; `edges`: numbers given so far.
  // `index` and `roots` outlive this. The same draw gives the same searches.
  LayoutSearch(const GraphIndex& index, std::vector<std::vector<ReaderEdge>> readers,
               const std::vector<ReaderEdge>& roots, int edges, EdgeDraws draws, uint32_t draw);

  // All nodes that the roots lead to, each before what only it leads to. O(n) in nodes and edges.
  std::vector<int> ReversePostOrder();

  // Puts a node in place of both: it takes what `into` takes and waits for what either waits for. From here on it is
  // `into`, and `part` is gone. O(n) in the edges of both and of their sources.
  void Merge(int part, int into);

 private:
  int Number();                       // of an edge that is added
  void Remove(int from, int reader);  // one edge between them

  const GraphIndex& index_;
  std::vector<std::vector<ReaderEdge>> readers_;
  const std::vector<ReaderEdge>& roots_;
  int next_;
  std::vector<int> free_;  // numbers of edges that are gone, which are given again, the last one first
  EdgeOrder order_;
};

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_LAYOUT_SEARCH_H_
