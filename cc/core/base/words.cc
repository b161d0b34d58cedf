#include "cc/core/base/words.h"

#include <algorithm>

namespace lms {

std::string Counted(int64_t count, const std::string& noun, const std::string& plural) {
  const std::string several = plural.empty() ? noun + "s" : plural;
  return std::to_string(count) + " " + (count == 1 ? noun : several);
}

std::string NameSome(const std::vector<std::string>& names, size_t most) {
  std::vector<std::string> parts(names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(most, names.size())));
  if (names.size() > most) parts.push_back(std::to_string(names.size() - most) + " more");
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

}  // namespace lms
