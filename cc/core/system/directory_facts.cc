#include "cc/core/system/directory_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <vector>

namespace lms {
namespace {

// Of linux/magic.h.
constexpr uint64_t kTmpfs = 0x01021994;
constexpr uint64_t kRamfs = 0x858458f6;

// "" where a file was made.
std::string TryFile(const std::string& directory) {
#ifdef O_TMPFILE
  const int nameless = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (nameless >= 0) {
    ::close(nameless);
    return "";
  }
  // Some file systems only make files with names.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return std::strerror(errno);
#endif
  const std::string pattern = directory + "/lms-spill-XXXXXX";
  std::vector<char> name(pattern.begin(), pattern.end());
  name.push_back('\0');
  const int file = ::mkstemp(name.data());
  if (file < 0) return std::strerror(errno);
  ::unlink(name.data());
  ::close(file);
  return "";
}

std::string FileSystemOf(const std::string& directory, const struct stat& info) {
  const std::ifstream file("/proc/self/mountinfo");
  std::ostringstream text;
  if (file) text << file.rdbuf();
  const unsigned device_major = major(info.st_dev);
  const unsigned device_minor = minor(info.st_dev);
  const std::string source = MountSource(text.str(), device_major, device_minor);
  if (!source.empty()) return std::to_string(device_major) + ":" + std::to_string(device_minor) + " " + source;
  std::error_code error;
  const std::filesystem::path full = std::filesystem::canonical(directory, error);
  return error ? directory : full.string();
}

}  // namespace

DirectoryFacts LookAtDirectory(const std::string& directory) {
  DirectoryFacts facts;
  struct stat info;
  if (::stat(directory.c_str(), &info) != 0) {
    facts.problem = directory + ": " + std::strerror(errno);
    return facts;
  }
  if (!S_ISDIR(info.st_mode)) {
    facts.problem = directory + ": is no directory";
    return facts;
  }
  const std::string failure = TryFile(directory);
  if (!failure.empty()) {
    facts.problem = directory + ": no file can be made there: " + failure;
    return facts;
  }
  struct statvfs space;
  if (::statvfs(directory.c_str(), &space) == 0) {
    const double free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
    constexpr double kMost = 9.2e18;
    facts.free_bytes = free < kMost ? static_cast<int64_t>(free) : std::numeric_limits<int64_t>::max();
  }
  struct statfs kind;
  if (::statfs(directory.c_str(), &kind) == 0) {
    const uint64_t type = static_cast<uint64_t>(kind.f_type) & 0xffffffffU;  // signed, and of 32 bits on some machines
    facts.in_memory = type == kTmpfs || type == kRamfs;
  }
  facts.file_system = FileSystemOf(directory, info);
  return facts;
}

std::string DirectoryForSpilling() {
  for (const char* name : {"LMS_SPILL_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  struct stat info;
  return ::stat("/var/tmp", &info) == 0 && S_ISDIR(info.st_mode) ? "/var/tmp" : "/tmp";
}

std::string MountSource(const std::string& mountinfo, unsigned major, unsigned minor) {
  // "36 35 98:0 /root /mount options [fields] - type source options"
  const std::string wanted = std::to_string(major) + ":" + std::to_string(minor);
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, word;
    if (!(words >> id >> parent >> device) || device != wanted) continue;
    while (words >> word && word != "-") {
    }
    std::string type, source;
    if (words >> type >> source) return source;
  }
  return "";
}

}  // namespace lms
