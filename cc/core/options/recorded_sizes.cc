#include "cc/core/options/recorded_sizes.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "cc/core/base/capped_product.h"

namespace lms {
namespace {

constexpr int kMostDoublings = 16;
constexpr int64_t kNegligible = 100;  // by this part of it a size may be larger than what was planned for

int64_t Elements(const RecordedShape& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements = CappedProduct(elements, size);
  return elements;
}

// Above a size that has been both larger and smaller, for the plan number `raises` among those with room.
int64_t Room(int64_t least, int64_t most, int64_t times, int raises) {
  const int64_t doubled = (most - least) << std::min(raises, kMostDoublings);
  return std::min(most / 4, (doubled + times - 1) / times);
}

bool ParseShape(std::string_view text, RecordedShape* shape) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    int64_t size = 0;
    const std::string number(text.substr(0, comma));
    const char* const last = number.c_str() + number.size();
    const auto [end, error] = std::from_chars(number.c_str(), last, size);
    if (error != std::errc() || end != last || size < 0) return false;
    shape->push_back(size);
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
    if (text.empty()) return false;
  }
  return true;
}

}  // namespace

void RecordedSizes::Note(const std::string& tensor, const RecordedShape& shape, int64_t least) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto entry = seen_.find(tensor);
  if (entry == seen_.end() && Elements(shape) < least) return;
  const bool first = entry == seen_.end();
  if (first) entry = seen_.try_emplace(tensor).first;
  Seen& seen = entry->second;
  if (first) {
    seen.least = seen.most = seen.last = shape;
    larger_ = true;
    return;
  }
  if (seen.strange || shape.size() != seen.most.size()) {
    larger_ = larger_ || !seen.strange;
    seen.strange = true;
    return;
  }
  ++seen.times;
  for (size_t d = 0; d < shape.size(); ++d) {
    seen.shrank = seen.shrank || shape[d] < seen.last[d];
    seen.last[d] = shape[d];
    seen.least[d] = std::min(seen.least[d], shape[d]);
    seen.most[d] = std::max(seen.most[d], shape[d]);
    larger_ = larger_ || seen.told.empty() || seen.most[d] > seen.told[d] + seen.told[d] / kNegligible;
  }
}

std::string RecordedSizes::Text() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!larger_) return text_;
  larger_ = false;
  const int with_room = raises_++ - kMostExactRaises;  // the first answer raises nothing
  text_.clear();
  for (auto& [tensor, seen] : seen_) {
    if (seen.strange) continue;
    RecordedShape told = seen.most;
    for (size_t d = 0; d < told.size(); ++d) {
      const int64_t before = d < seen.told.size() ? seen.told[d] : 0;
      // Where there are several it is seldom the same one that is too large next.
      if (with_room > 0 && told[d] > seen.least[d]) {
        told[d] += seen.shrank ? Room(seen.least[d], told[d], seen.times, with_room - 1) : told[d] / 4;
      }
      told[d] = std::max(told[d], before);
    }
    seen.told = std::move(told);
    if (!text_.empty()) text_ += ';';
    text_ += tensor + "=";
    for (size_t d = 0; d < seen.told.size(); ++d) text_ += (d == 0 ? "" : ",") + std::to_string(seen.told[d]);
  }
  return text_;
}

bool ParseRecordedSizes(const std::string& text, RecordedShapes* shapes) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view item = rest.substr(0, end);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) return false;
    RecordedShape shape;
    if (!ParseShape(item.substr(equals + 1), &shape)) return false;
    (*shapes)[std::string(item.substr(0, equals))] = std::move(shape);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

}  // namespace lms
