#include "cc/core/graph/node_names.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lms {
namespace {

const char kRecompute[] = "lms/recompute/";
const char kLoop[] = "lms/loop/";
const char kSwapOut[] = "lms/swap_out/";
const char kSwapIn[] = "lms/swap_in/";
const char kPlaces[] = "lms/places/";
const char kStrict[] = "lms/strict/";

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Where the number stands in a name of one of these kinds; npos for other names. A user's model may be called "lms"
// too: the whole prefix counts.
size_t NumberIn(const std::string& name) {
  for (const std::string prefix : {kRecompute, kLoop, kSwapOut, kSwapIn, kPlaces}) {
    if (StartsWith(name, prefix)) return prefix.size();
  }
  return std::string::npos;
}

// -1 where the name does not begin so.
int NumberAfter(const std::string& prefix, const std::string& name) {
  int number = -1;
  if (StartsWith(name, prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return std::max(number, -1);  // from_chars would take a sign as well
}

}  // namespace

std::string RecomputeName(int index, const std::string& original) {
  return kRecompute + std::to_string(index) + "/" + original;
}

std::string LoopName(int index, const std::string& original) { return kLoop + std::to_string(index) + "/" + original; }

std::string SwapOutName(int index, const std::string& original) {
  return kSwapOut + std::to_string(index) + "/" + original;
}

std::string SwapInName(int index, const std::string& original) {
  return kSwapIn + std::to_string(index) + "/" + original;
}

std::string PlacesName(int64_t number, const std::string& original) {
  return kPlaces + std::to_string(number) + "/" + original;
}

std::string StrictName(const std::string& part) { return kStrict + part; }

bool IsOwnName(const std::string& name) {
  if (StartsWith(name, kStrict)) return true;
  const size_t digit = NumberIn(name);
  return digit < name.size() && std::isdigit(static_cast<unsigned char>(name[digit])) != 0;
}

bool IsLoopName(const std::string& name) { return StartsWith(name, kLoop) && IsOwnName(name); }

int LoopNumber(const std::string& name) { return NumberAfter(kLoop, name); }

int RecomputeNumber(const std::string& name) { return NumberAfter(kRecompute, name); }

std::string OriginalName(const std::string& name) {
  const size_t number = NumberIn(name);
  if (number == std::string::npos) return name;
  const size_t slash = name.find('/', number);
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace lms
