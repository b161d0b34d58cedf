// The order in which TensorFlow's executor hands on to the readers of a node, in one instance of a graph.
//
// Up to eight edges keep the order in which they were added. More are in a hash table by their addresses (EdgeSet,
// FlatSet): an edge goes to the slot that bits 8 and up of its address choose, or where that is taken to one behind it.
// Edges take 32 bytes and are added one behind the other, node by node, in pieces of memory of 8 KiB; those from the
// source of the graph to nodes without inputs come last. So readers do not come in any order: eight neighbours at a
// time are spread over the table by the same rule. What differs between instances is where the pieces of memory lie.
// (Read from graph.cc, arena.cc, flatrep.h and hash.h of TensorFlow 2.21; with the addresses that a debugger showed it
// gives the order of the executor's log, 31 roots of 31.)
//
// Places of memory are not drawn at random but spread evenly over all that make a difference (a Kronecker sequence), so
// that a few draws meet each kind of order, and about as often in graphs that are nearly the same.

#ifndef LMS_CC_CORE_SIMULATE_EDGE_ORDER_H_
#define LMS_CC_CORE_SIMULATE_EDGE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace lms {

// Outgoing edges that tensorflow::EdgeSet keeps in the order in which they were added.
inline constexpr size_t kOrderedEdges = 8;
// Of a graph, by number: the first edges are the source's to the sink.
inline constexpr int kSinkEdges = 2;

// An edge by its number among all edges of the graph, and the node that it leads to.
struct ReaderEdge {
  int number;
  int reader;
};

// Which orders of more than eight edges are drawn: those of tables by address, or any. Any order may come where several
// devices' graphs, each with memory and an executor of its own, are seen as one.
enum class EdgeDraws { kByAddress, kAny };

// Indices of `addresses`, which are different, in the order in which a table lists them to which they were added one by
// one. O(n log n).
std::vector<int> InTableOrder(const std::vector<uint64_t>& addresses);

class EdgeOrder {
 public:
  // Where the memory of that many edges lies in the given draw, 0, 1, …; the same draw gives the same order.
  EdgeOrder(int edges, EdgeDraws draws, uint32_t draw);

  // Calls visit(reader) for the readers of a node, in order: of its tensors, then those that only wait for it. Both
  // lists of edges are in the order in which they were added; where neither is empty that is by number.
  template <typename Callback>
  void Visit(const std::vector<ReaderEdge>& data, const std::vector<ReaderEdge>& control, const Callback& visit) {
    if (data.size() + control.size() <= kOrderedEdges) {
      for (const ReaderEdge& edge : data) visit(edge.reader);
      for (const ReaderEdge& edge : control) visit(edge.reader);
      return;
    }
    Sort(data, control);
    for (const int reader : data_readers_) visit(reader);
    for (const int reader : control_readers_) visit(reader);
  }

  // The nodes that the source leads to.
  std::vector<int> SortRoots(const std::vector<ReaderEdge>& roots);

 private:
  uint64_t AddressOf(int number) const;

  // Into `data_readers_` and `control_readers_`, where there are too many to keep their order.
  void Sort(const std::vector<ReaderEdge>& data, const std::vector<ReaderEdge>& control);

  // Indices of the edges, of which there are more than keep their order.
  std::vector<int> Order(const std::vector<int>& numbers);

  EdgeDraws draws_;
  std::mt19937 random_;  // where any order may come
  uint64_t begin_ = 0;   // of the first edge, in its piece of memory
  uint64_t first_ = 0;   // the edge with which the graph began, from the source to the sink
  std::vector<uint64_t> pieces_;
  std::vector<int> data_readers_;
  std::vector<int> control_readers_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SIMULATE_EDGE_ORDER_H_
