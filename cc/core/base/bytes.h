// Bytes for people: formatting and parsing of memory sizes.
//
// FormatBytes(1610612736) == "1.50 GiB". ParseBytes accepts a plain number of bytes or a number with one of the
// suffixes B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024), case-insensitive, with optional
// blanks between the two. Pure functions.

#ifndef LMS_CC_CORE_BASE_BYTES_H_
#define LMS_CC_CORE_BASE_BYTES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace lms {

std::string FormatBytes(int64_t bytes);

// Nothing where the text is not a size, is negative, or does not fit 63 bits.
std::optional<int64_t> ParseBytes(const std::string& text);

// The number alone ("12.5"), the whole text; nothing where it is anything else, NaN and infinities included.
std::optional<double> ParseNumber(const std::string& text);

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_BYTES_H_
