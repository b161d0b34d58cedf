#include "cc/core/profile/profile_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "cc/core/system/kept_file.h"

namespace lms {
namespace {

std::string ReadProfile(const std::string& path, Profile* profile) {
  std::string text;
  const std::string problem = ReadKeptFile(path, &text);
  return problem.empty() ? ParseProfile(text, path, profile) : problem;
}

struct Cached {
  FileStamp stamp;
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

}  // namespace

std::string DefaultProfilePath(const std::string& device) { return KeptFilePath(device, ".profile"); }

std::shared_ptr<const Profile> LoadProfile(const std::string& path, std::string* problem) {
  Cache& cache = TheCache();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  problem->clear();
  FileStamp stamp;
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
  written.problem = MakeDirectoriesFor(path);
  if (!written.problem.empty()) return written;
  const KeptFileLock lock(path);
  written.problem = lock.problem();
  if (!written.problem.empty()) return written;
  Profile profile;
  FileStamp stamp;
  std::error_code error;
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
  written.problem = ReplaceKeptFile(path, ProfileText(profile), /*until_on_disk=*/true);
  return written;
}

}  // namespace lms
