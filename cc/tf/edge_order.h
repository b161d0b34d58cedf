// The order in which TensorFlow's executor hands on to the readers of a node, in one instance of a graph.
//
// Up to eight edges keep the order in which they were added. More are in a hash table by their addresses (EdgeSet,
// FlatSet): an edge goes to the slot that bits 8 and up of its address choose, or where that is taken to one behind it.
// Edges take 32 bytes and are added one behind the other, node by node, in pieces of memory of 8 KiB; those from the
// source of the graph to nodes without inputs come last. So readers do not come in any order, but eight neighbours at a
// time are spread over the table by the same rule; what an instance draws is where its pieces of memory lie. (Read from
// graph.cc, arena.cc, flatrep.h and hash.h; with the addresses that a debugger showed it gives the order of the
// executor's log, 31 roots of 31, 2.21.)

#ifndef LMS_CC_TF_EDGE_ORDER_H_
#define LMS_CC_TF_EDGE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace lms {

// Outgoing edges that keep their order.
inline constexpr size_t kOrderedEdges = 8;
// Of a graph, by number: the first edges are the source's to the sink.
inline constexpr int kSinkEdges = 2;

// An edge by its number among all edges of the graph, and the node that it leads to.
struct ReaderEdge {
  int number;
  int reader;
};

// Indices of `addresses`, which are different, in the order in which a table lists them to which they were added one by
// one. O(n).
std::vector<int> InTableOrder(const std::vector<uint64_t>& addresses);

class EdgeOrder {
 public:
  // Draws where the memory of that many edges lies. `any`: any order may come, as where several devices' graphs, each
  // with memory and an executor of its own, are seen as one.
  EdgeOrder(int edges, bool any, std::mt19937* random);

  // The readers of a node: of its tensors, and those that only wait for it. All lists of edges are by number.
  void Sort(const std::vector<ReaderEdge>& data, const std::vector<ReaderEdge>& control, std::vector<int>* data_readers,
            std::vector<int>* control_readers) const;

  // The same, in one list.
  std::vector<int> Sort(const std::vector<ReaderEdge>& readers) const;

  // The nodes that the source leads to.
  std::vector<int> SortRoots(const std::vector<ReaderEdge>& roots) const;

 private:
  uint64_t AddressOf(int number) const;

  // Indices of the edges, of which there are more than keep their order.
  std::vector<int> Order(const std::vector<int>& numbers) const;

  uint32_t seed_;
  bool any_;
  uint64_t begin_;  // of the first edge, in its piece of memory
  uint64_t first_;  // the edge with which the graph began, from the source to the sink
  std::vector<uint64_t> pieces_;
};

}  // namespace lms

#endif  // LMS_CC_TF_EDGE_ORDER_H_
