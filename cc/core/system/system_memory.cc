#include "cc/core/system/system_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace lms {
namespace {

// cgroup v1 says "no limit" with a number near 2^63.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// The names that the two versions of cgroups give to the same things.
struct CgroupFiles {
  std::vector<std::string> limits;
  std::string usage;
  std::string cache_field;  // in memory.stat, of the group and those below it
};

const CgroupFiles& FilesOfVersion2() {
  static const auto* files = new CgroupFiles{{"memory.max", "memory.high"}, "memory.current", "inactive_file"};
  return *files;
}

const CgroupFiles& FilesOfVersion1() {
  static const auto* files = new CgroupFiles{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
  return *files;
}

std::string ReadFile(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ParseNumber(const std::string& text) {
  std::istringstream stream(text);
  int64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

std::optional<int64_t> Least(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

// The number behind `field` and a space, in a memory.stat.
int64_t StatNumber(const std::string& text, const std::string& field) {
  std::istringstream lines(text);
  std::string name;
  int64_t number = 0;
  while (lines >> name >> number) {
    if (name == field) return number;
  }
  return 0;
}

std::optional<int64_t> BytesLeftInGroup(const std::string& directory, const CgroupFiles& files) {
  std::optional<int64_t> limit;
  for (const std::string& name : files.limits) limit = Least(limit, ParseNumber(ReadFile(directory + "/" + name)));
  const std::optional<int64_t> usage = ParseNumber(ReadFile(directory + "/" + files.usage));
  if (!limit || !usage || *limit >= kNoLimit) return std::nullopt;
  const int64_t cache = std::min(*usage, StatNumber(ReadFile(directory + "/memory.stat"), files.cache_field));
  return std::max<int64_t>(0, *limit - (*usage - cache));
}

// The least left in the group at `path` below `root` and in every group above it, `root` included.
std::optional<int64_t> BytesLeftOnPath(const std::string& root, std::string path, const CgroupFiles& files) {
  std::optional<int64_t> left;
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    left = Least(left, BytesLeftInGroup(root + path, files));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return left;
    path.resize(slash);
  }
}

bool HasController(const std::string& controllers, const std::string& wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

template <typename Resource>  // an enum in some C libraries, an int in others
std::optional<int64_t> Limit(Resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > static_cast<rlim_t>(kNoLimit)) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

void Apply(std::optional<int64_t> bytes, const std::string& bound, MemoryAvailable* available) {
  if (!bytes || *bytes >= available->bytes) return;
  available->bytes = std::max<int64_t>(0, *bytes);
  available->bound = bound;
}

std::optional<int64_t> LeftOfLimit(std::optional<int64_t> limit, const MemorySources& sources,
                                   const std::string& field) {
  const std::optional<int64_t> used = FieldBytes(sources.status, field);
  if (!limit || !used) return std::nullopt;
  return *limit - *used + sources.idle_bytes;
}

}  // namespace

std::optional<int64_t> FieldBytes(const std::string& text, const std::string& field) {
  std::istringstream lines(text);
  const std::string start = field + ":";
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, start.size(), start) != 0) continue;
    const std::optional<int64_t> kilobytes = ParseNumber(line.substr(start.size()));
    if (kilobytes) return *kilobytes * 1024;
  }
  return std::nullopt;
}

std::optional<int64_t> CgroupBytesLeft(const std::string& cgroup, const std::string& root) {
  // Lines of "hierarchy:controllers:path"; version 2 is "0::path".
  std::optional<int64_t> left;
  std::istringstream lines(cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      left = Least(left, BytesLeftOnPath(root, path, FilesOfVersion2()));
      left = Least(left, BytesLeftOnPath(root + "/unified", path, FilesOfVersion2()));  // both versions mounted
    } else if (HasController(controllers, "memory")) {
      left = Least(left, BytesLeftOnPath(root + "/memory", path, FilesOfVersion1()));
    }
  }
  return left;
}

MemoryAvailable AvailableMemory(const MemorySources& sources) {
  MemoryAvailable available;
  Apply(FieldBytes(sources.meminfo, "MemAvailable"), "MemAvailable", &available);
  Apply(CgroupBytesLeft(sources.cgroup, sources.cgroup_root), "cgroup", &available);
  Apply(LeftOfLimit(sources.data_limit, sources, "VmData"), "RLIMIT_DATA", &available);
  Apply(LeftOfLimit(sources.address_space_limit, sources, "VmSize"), "RLIMIT_AS", &available);
  return available;
}

MemorySources ReadMemorySources() {
  MemorySources sources;
  sources.meminfo = ReadFile("/proc/meminfo");
  sources.status = ReadFile("/proc/self/status");
  sources.cgroup = ReadFile("/proc/self/cgroup");
  sources.data_limit = Limit(RLIMIT_DATA);
  sources.address_space_limit = Limit(RLIMIT_AS);
  return sources;
}

MemoryAvailable AvailableMemory(int64_t idle_bytes) {
  MemorySources sources = ReadMemorySources();
  sources.idle_bytes = idle_bytes;
  return AvailableMemory(sources);
}

}  // namespace lms
