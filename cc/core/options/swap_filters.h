// Which tensors may be swapped, as the user says: by name scope and by type of operation; and by size.

#ifndef LMS_CC_CORE_OPTIONS_SWAP_FILTERS_H_
#define LMS_CC_CORE_OPTIONS_SWAP_FILTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/options/options.h"

namespace lms {

// Takes MemBuffer::swappable from the buffers that swap_include, swap_exclude, swap_include_ops and swap_exclude_ops
// leave out. Returns a warning for each name among them that fits no buffer of the graph. Linear in buffers times
// names.
std::vector<std::string> FilterSwappable(const Options& options, MemGraph* graph);

// Takes it from buffers of more than `most_bytes` as well: what a swap needs beside its tier is not there for them.
void FilterLarger(int64_t most_bytes, MemGraph* graph);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_SWAP_FILTERS_H_
