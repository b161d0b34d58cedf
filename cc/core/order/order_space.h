// The orders in which a graph's ops may run, and what memory each of them takes.
//
// An order is a permutation of the ops. Beside dependencies it must keep, from the order that the graph comes in:
//   - a read of something that is overwritten in place stays on its side of the overwriting: the value is safe in
//     any order (variables are copied on write), but the copy would cost memory that no simulator here knows of;
//   - the readers of a buffer whose holders matter to one of them (MemBuffer::no_more_readers) stay in their order;
//   - what is made later than it is read, around a loop, stays so.
//
// Read-only once made; an OrderProfile belongs to one thread. Everything is linear in ops, dependencies and reads.

#ifndef LMS_CC_CORE_ORDER_ORDER_SPACE_H_
#define LMS_CC_CORE_ORDER_ORDER_SPACE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/graph/mem_graph.h"

namespace lms {

// Lists of lists, in one piece of memory.
class IdLists {
 public:
  struct Range {
    const int32_t* first;
    const int32_t* last;
    const int32_t* begin() const { return first; }
    const int32_t* end() const { return last; }
    size_t size() const { return static_cast<size_t>(last - first); }
    bool empty() const { return first == last; }
  };

  // `pairs` are (list, id), of lists 0 to size - 1; each list keeps their order.
  void Fill(size_t size, const std::vector<std::pair<int32_t, int32_t>>& pairs);
  Range operator[](size_t list) const { return {ids_.data() + first_[list], ids_.data() + first_[list + 1]}; }
  size_t ids() const { return ids_.size(); }

 private:
  std::vector<size_t> first_;
  std::vector<int32_t> ids_;
};

class OrderSpace {
 public:
  // `graph` is in some order of execution and outlives the space.
  explicit OrderSpace(const MemGraph& graph);

  const MemGraph& graph() const { return graph_; }
  int size() const { return static_cast<int>(graph_.ops.size()); }
  int64_t resident_bytes() const { return resident_bytes_; }
  const IdLists& before() const { return before_; }    // per op: those that must have run
  const IdLists& after() const { return after_; }      // per op: those that must not have run
  const IdLists& inputs() const { return inputs_; }    // per op: buffers read that are not resident
  const IdLists& outputs() const { return outputs_; }  // per op: buffers made that are not resident
  const IdLists& readers() const { return readers_; }  // per buffer: the ops of inputs()
  // What one look at the whole graph takes, in steps of work.
  int64_t sweep() const { return size() + static_cast<int64_t>(inputs_.ids() + outputs_.ids()); }

  // Is `order` a permutation of the ops that keeps what must be kept?
  bool Allows(const std::vector<OpId>& order) const;

 private:
  const MemGraph& graph_;
  int64_t resident_bytes_;
  IdLists before_;
  IdLists after_;
  IdLists inputs_;
  IdLists outputs_;
  IdLists readers_;
};

// Bytes in use at each place of an order, resident ones left out: what Simulate (liveness.h) says of the graph in that
// order, without making it.
class OrderProfile {
 public:
  explicit OrderProfile(const OrderSpace& space);

  // O(OrderSpace::sweep()).
  void Compute(const std::vector<OpId>& order);

  const std::vector<int64_t>& bytes() const { return bytes_; }  // per place
  int64_t peak() const { return peak_; }
  // The sum over all places of what is above the limit.
  double Excess(int64_t limit) const;

 private:
  int64_t Forwarded(OpId op, int place) const;

  const OrderSpace& space_;
  std::vector<int64_t> bytes_;
  std::vector<int> last_read_;  // per buffer: place; -1: none
  int64_t peak_ = 0;
};

}  // namespace lms

#endif  // LMS_CC_CORE_ORDER_ORDER_SPACE_H_
