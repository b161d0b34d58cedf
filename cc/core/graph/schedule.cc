#include "cc/core/graph/schedule.h"

#include <algorithm>

namespace lms {

std::vector<OpId> ExecutionOrder(const MemGraph& graph) {
  const size_t n = graph.ops.size();
  std::vector<int> waiting(n, 0);
  std::vector<std::vector<OpId>> readers(n);
  for (size_t i = 0; i < n; ++i) {
    for (const OpId dep : graph.ops[i].deps) {
      readers[dep].push_back(static_cast<OpId>(i));
      ++waiting[i];
    }
  }
  std::vector<OpId> order;
  order.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) order.push_back(static_cast<OpId>(i));
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const OpId reader : readers[order[next]]) {
      if (--waiting[reader] == 0) order.push_back(reader);
    }
  }
  return order;
}

}  // namespace lms
