#include "cc/core/profile_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "cc/core/text_file.h"

namespace lms {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What changes when the file does.
using Stamp = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

// False where there is no file.
bool StampOf(const std::string& path, Stamp* stamp) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return false;
  *stamp = {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino), info.st_size, info.st_mtim.tv_sec,
            info.st_mtim.tv_nsec};
  return true;
}

std::string ReadProfile(const std::string& path, Profile* profile) {
  // A device or a pipe may never end.
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!error && !std::filesystem::is_regular_file(status)) return path + ": is no file";
  std::string text;
  const std::string problem = ReadTextFile(path, &text);
  return problem.empty() ? ParseProfile(text, path, profile) : problem;
}

struct Cached {
  Stamp stamp;
  std::shared_ptr<const Profile> profile;
  std::string problem;
};

struct Cache {
  static constexpr size_t kMost = 16;
  std::mutex mutex;
  std::map<std::string, Cached> files;
};

Cache& TheCache() {
  static auto* const cache = new Cache;
  return *cache;
}

// Held from construction to the end of its life, or not at all where the file system has no locks.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH)) {
    while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (file_ >= 0) ::close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

// The text is on the disk when this returns "".
std::string WriteToDisk(const std::string& path, const std::string& text) {
  std::string problem = WriteTextFile(path, text);
  if (!problem.empty()) return problem;
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  if (!synced) problem = path + ": cannot be written: " + std::strerror(errno);
  if (file >= 0) ::close(file);
  return problem;
}

std::string Replace(const std::string& path, const std::string& text) {
  static std::atomic<int> number{0};
  const std::string own = path + ".new." + std::to_string(::getpid()) + "." + std::to_string(number++);
  std::string problem = WriteToDisk(own, text);
  if (problem.empty() && std::rename(own.c_str(), path.c_str()) != 0) {
    problem = path + ": cannot be replaced: " + std::strerror(errno);
  }
  if (!problem.empty()) std::remove(own.c_str());
  return problem;
}

}  // namespace

std::string DefaultProfilePath(const std::string& device) {
  std::string directory = FromEnvironment("LMS_PROFILE_DIR");
  if (directory.empty()) {
    std::string cache = FromEnvironment("XDG_CACHE_HOME");
    if (cache.empty() || cache.front() != '/') {  // the standard has relative ones ignored
      cache = FromEnvironment("HOME");
      if (cache.empty()) return "";
      cache += "/.cache";
    }
    directory = cache + "/lms/profiles";
  }
  std::string name = device;
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return directory + "/" + name + ".profile";
}

std::shared_ptr<const Profile> LoadProfile(const std::string& path, std::string* problem) {
  Cache& cache = TheCache();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  problem->clear();
  Stamp stamp;
  if (!StampOf(path, &stamp)) {
    if (errno != ENOENT && errno != ENOTDIR) *problem = path + ": cannot be read: " + std::strerror(errno);
    return nullptr;
  }
  const auto found = cache.files.find(path);
  if (found != cache.files.end() && found->second.stamp == stamp) {
    *problem = found->second.problem;
    return found->second.profile;
  }
  Cached cached{stamp, nullptr, ""};
  Profile profile;
  cached.problem = ReadProfile(path, &profile);
  if (cached.problem.empty()) cached.profile = std::make_shared<const Profile>(std::move(profile));
  if (cache.files.size() >= Cache::kMost) cache.files.clear();
  *problem = cached.problem;
  return (cache.files[path] = std::move(cached)).profile;
}

ProfileWritten AddToProfile(const std::string& path, const ProfilePlace& place,
                            const std::map<std::string, ProfileEntry>& entries) {
  ProfileWritten written;
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  if (error) {
    written.problem = directory.string() + ": cannot be made: " + error.message();
    return written;
  }
  const FileLock lock(path + ".lock");
  Profile profile;
  Stamp stamp;
  if (std::filesystem::is_directory(path, error)) {
    written.problem = path + ": is a directory";
    return written;
  }
  if (StampOf(path, &stamp)) {
    written.replaced = ReadProfile(path, &profile);
    if (written.replaced.empty()) written.replaced = profile.place.DifferenceTo(place);
    if (!written.replaced.empty()) {
      const std::string old = path + ".old";
      if (std::rename(path.c_str(), old.c_str()) != 0) {
        written.problem = path + ": cannot be moved to " + old + ": " + std::strerror(errno);
        return written;
      }
      profile = Profile();
    }
  }
  profile.place = place;
  for (const auto& [key, entry] : entries) profile.entries[key] = entry;
  written.problem = Replace(path, ProfileText(profile));
  return written;
}

}  // namespace lms
