#include "cc/core/base/bytes.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lms {
namespace {

// strtod also takes hexadecimal, "inf" and "nan": none of them is a size that a person would write.
bool LooksDecimal(const std::string& text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E') {
      return false;
    }
  }
  return true;
}

std::string Trimmed(const std::string& text) {
  static constexpr const char* kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::fabs(value) >= 1024.0 && unit < 6) {
    value /= 1024.0;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

std::optional<double> ParseNumber(const std::string& text) {
  if (!LooksDecimal(text)) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseBytes(const std::string& text) {
  static constexpr std::pair<const char*, double> kSuffixes[] = {
      {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0},
      {"kb", 1e3},     {"mb", 1e6},        {"gb", 1e9},           {"tb", 1e12},
      {"b", 1.0}};
  std::string lower = Trimmed(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double unit = 1.0;
  for (const auto& [suffix, bytes] : kSuffixes) {
    const std::string ending = suffix;
    if (lower.size() > ending.size() && lower.compare(lower.size() - ending.size(), ending.size(), ending) == 0) {
      lower = Trimmed(lower.substr(0, lower.size() - ending.size()));
      unit = bytes;
      break;
    }
  }
  const std::optional<double> number = ParseNumber(lower);
  if (!number || *number < 0 || *number * unit >= 9.2e18) return std::nullopt;
  return static_cast<int64_t>(std::llround(*number * unit));
}

}  // namespace lms
