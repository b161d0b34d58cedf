// Copies bytes and tells their 32-bit checksum, in one pass.
//
// Position-weighted sums over vector lanes, mixed at the end: a changed byte, words in another order, and zeros in
// place of what was written all change it, but for one chance in 2^32. It guards against damage, not against malice.
// Twice as fast as CRC-32C with the processor's instructions (0.09 against 0.17 s of processor time per GB, of which
// the copy alone takes 0.04). Pure.

#ifndef LMS_CC_CORE_SPILL_SPILL_CHECKSUM_H_
#define LMS_CC_CORE_SPILL_SPILL_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

namespace lms {

// `to` and `from` do not overlap.
using CopyChecksum = uint32_t (*)(void* to, const void* from, size_t bytes);

uint32_t CopyAndSum(void* to, const void* from, size_t bytes);

}  // namespace lms

#endif  // LMS_CC_CORE_SPILL_SPILL_CHECKSUM_H_
