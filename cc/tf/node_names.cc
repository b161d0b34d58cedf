#include "cc/tf/node_names.h"

namespace lms {
namespace {

const char kOwn[] = "lms/";
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

bool IsOwnName(const std::string& name) { return StartsWith(name, kOwn); }

std::string OriginalName(const std::string& name) {
  if (!StartsWith(name, kRecompute)) return name;
  const size_t slash = name.find('/', sizeof(kRecompute) - 1);
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace lms
