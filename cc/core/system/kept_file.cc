#include "cc/core/system/kept_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "cc/core/base/text_file.h"
#include "cc/core/base/waited.h"

namespace lms {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{5};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string WaitForDisk(const std::string& path) {
  std::string problem;
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  if (!synced) problem = path + ": cannot be written: " + std::strerror(errno);
  if (file >= 0) ::close(file);
  return problem;
}

}  // namespace

std::string KeptFilePath(const std::string& device, const std::string& ending) {
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
  return directory + "/" + name + ending;
}

bool StampOf(const std::string& path, FileStamp* stamp) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return false;
  *stamp = {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino), info.st_size, info.st_mtim.tv_sec,
            info.st_mtim.tv_nsec};
  return true;
}

std::string ReadKeptFile(const std::string& path, std::string* text) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!error && !std::filesystem::is_regular_file(status)) return path + ": is no file";
  return ReadTextFile(path, text);
}

std::string MakeDirectoriesFor(const std::string& path) {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  return error ? directory.string() + ": cannot be made: " + error.message() : "";
}

std::string ReplaceKeptFile(const std::string& path, const std::string& text, bool until_on_disk) {
  static std::atomic<int> number{0};
  const std::string own = path + ".new." + std::to_string(::getpid()) + "." + std::to_string(number++);
  std::string problem = WriteTextFile(own, text);
  if (problem.empty() && until_on_disk) problem = WaitForDisk(own);
  if (problem.empty() && std::rename(own.c_str(), path.c_str()) != 0) {
    problem = path + ": cannot be replaced: " + std::strerror(errno);
  }
  if (!problem.empty()) std::remove(own.c_str());
  return problem;
}

KeptFileLock::KeptFileLock(const std::string& path, double most_seconds)
    : file_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH)) {
  if (file_ < 0) return;
  const auto begin = std::chrono::steady_clock::now();
  double waited = 0;
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (waited >= most_seconds) {
      problem_ = path + ".lock: another program has held it for " + std::to_string(static_cast<int>(waited)) + " s";
      break;
    }
    std::this_thread::sleep_for(kBetweenTries);
    waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  AddWaited(waited);
}

KeptFileLock::~KeptFileLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace lms
