#include "cc/core/spill/spill_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <mutex>
#include <utility>

namespace lms {
namespace {

class SystemSpillFile : public SpillFile {
 public:
  SystemSpillFile(int fd, bool direct) : fd_(fd), direct_(direct) {}
  ~SystemSpillFile() override { close(fd_); }
  SystemSpillFile(const SystemSpillFile&) = delete;
  SystemSpillFile& operator=(const SystemSpillFile&) = delete;

  int Reserve(int64_t offset, int64_t bytes) override {
    int result = 0;
    do {
      result = fallocate(fd_, 0, offset, bytes);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return 0;
    // A file system that cannot reserve only gets longer; a full disk is then noticed by the write itself.
    if (errno == EOPNOTSUPP || errno == ENOSYS) return Truncate(offset + bytes);
    return errno;
  }

  SpillIo Write(const void* data, int64_t bytes, int64_t offset) override {
    ssize_t moved = pwrite(fd_, data, static_cast<size_t>(bytes), offset);
    if (moved < 0 && errno == EINVAL && GiveUpDirect()) moved = pwrite(fd_, data, static_cast<size_t>(bytes), offset);
    if (moved < 0) return {0, errno};
    if (!direct_ && moved > 0) WriteBehind(offset, moved);
    return {moved, 0};
  }

  SpillIo Read(void* data, int64_t bytes, int64_t offset) override {
    ssize_t moved = pread(fd_, data, static_cast<size_t>(bytes), offset);
    if (moved < 0 && errno == EINVAL && GiveUpDirect()) moved = pread(fd_, data, static_cast<size_t>(bytes), offset);
    if (moved < 0) return {0, errno};
    if (!direct_ && moved > 0) posix_fadvise(fd_, offset, moved, POSIX_FADV_DONTNEED);
    return {moved, 0};
  }

  int Truncate(int64_t bytes) override {
    int result = 0;
    do {
      result = ftruncate(fd_, bytes);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
  }

 private:
  // Some file systems accept the flag and refuse each transfer, or want a larger alignment.
  bool GiveUpDirect() {
    direct_ = false;
    const int flags = fcntl(fd_, F_GETFL);  // by every thread that was refused: the first may not have got this far
    return flags >= 0 && fcntl(fd_, F_SETFL, flags & ~O_DIRECT) == 0;
  }

  // This range begins its way to the disk; the one before, which has had time, leaves the page cache.
  void WriteBehind(int64_t offset, int64_t bytes) {
    sync_file_range(fd_, offset, bytes, SYNC_FILE_RANGE_WRITE);
    std::pair<int64_t, int64_t> before;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      before = std::exchange(behind_, {offset, bytes});
    }
    if (before.second == 0) return;
    sync_file_range(fd_, before.first, before.second,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(fd_, before.first, before.second, POSIX_FADV_DONTNEED);
  }

  const int fd_;
  std::atomic<bool> direct_;
  std::mutex mutex_;
  std::pair<int64_t, int64_t> behind_{0, 0};  // offset, bytes; guarded by mutex_
};

int OpenRetrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// With a name for as long as it takes to remove it.
int OpenNamed(const std::string& directory) {
  std::string path = directory + "/.lms-spill-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);  // for this user alone
  if (fd >= 0) unlink(path.c_str());
  return fd;
}

bool SetDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
}

class SystemFiles : public SpillFiles {
 public:
  std::unique_ptr<SpillFile> Open(const std::string& directory, int* error) override {
    int fd = OpenRetrying(directory, O_TMPFILE | O_EXCL);
    // EISDIR: a kernel that does not know the flag; EOPNOTSUPP and EINVAL: a file system that does not.
    if (fd < 0 && (errno == EISDIR || errno == EOPNOTSUPP || errno == EINVAL)) fd = OpenNamed(directory);
    if (fd < 0) {
      *error = errno;
      return nullptr;
    }
    return std::make_unique<SystemSpillFile>(fd, SetDirect(fd));
  }

  int64_t FreeBytes(const std::string& directory) override {
    struct statvfs info;
    if (statvfs(directory.c_str(), &info) != 0) return -1;
    const double bytes = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
    if (bytes >= static_cast<double>(std::numeric_limits<int64_t>::max())) return std::numeric_limits<int64_t>::max();
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }
};

}  // namespace

SpillFiles* SystemSpillFiles() {
  static auto* const files = new SystemFiles;
  return files;
}

}  // namespace lms
