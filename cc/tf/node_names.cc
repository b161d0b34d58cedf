#include "cc/tf/node_names.h"

#include <cctype>

namespace lms {
namespace {

const char kRecompute[] = "lms/recompute/";
const char kStrict[] = "lms/strict/";

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

std::string RecomputeName(int index, const std::string& original) {
  return kRecompute + std::to_string(index) + "/" + original;
}

std::string StrictName(const std::string& part) { return kStrict + part; }

// A user's model may be called "lms" too: the whole prefix counts.
bool IsOwnName(const std::string& name) {
  if (StartsWith(name, kStrict)) return true;
  const size_t digit = sizeof(kRecompute) - 1;
  return StartsWith(name, kRecompute) && digit < name.size() && std::isdigit(static_cast<unsigned char>(name[digit]));
}

std::string OriginalName(const std::string& name) {
  if (!StartsWith(name, kRecompute)) return name;
  const size_t slash = name.find('/', sizeof(kRecompute) - 1);
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace lms
