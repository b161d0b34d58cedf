// Spill files for tests: kept in memory, with faults on demand.
//
// Thread-safety: all functions; the plan of faults may change while transfers run.

#ifndef LMS_TESTS_CC_CORE_FAULTY_FILES_H_
#define LMS_TESTS_CC_CORE_FAULTY_FILES_H_

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/spill/spill_file.h"

namespace lms {

class FaultyFiles : public SpillFiles {
 public:
  std::unique_ptr<SpillFile> Open(const std::string&, int* error) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (open_error != 0) {
      *error = open_error;
      return nullptr;
    }
    return std::make_unique<File>(this);
  }
  int64_t FreeBytes(const std::string&) override { return disk_bytes; }

  // Set before transfers, or through With().
  int open_error = 0;
  int reserve_error = 0;
  int write_error = 0;
  int read_error = 0;
  int64_t disk_bytes = int64_t{1} << 40;  // Reserve beyond it: ENOSPC
  int64_t at_most = int64_t{1} << 40;     // bytes that one call moves
  int interrupted = 0;                    // so many calls fail with EINTR first

  // What the tests look at.
  std::vector<char> data;
  int64_t most_bytes = 0;  // that the file ever had
  int calls = 0;

  template <typename Change>
  void With(Change change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    change();
  }

  // From now on transfers stand still, until Go.
  void Hold() {
    With([this] { held_ = true; });
  }
  void Go() {
    With([this] { held_ = false; });
    moved_.notify_all();
  }
  // Waits until a transfer stands still.
  void AwaitHeld() {
    std::unique_lock<std::mutex> lock(mutex_);
    moved_.wait(lock, [this] { return standing_ > 0; });
  }

 private:
  class File : public SpillFile {
   public:
    explicit File(FaultyFiles* files) : files_(files) {}
    int Reserve(int64_t offset, int64_t bytes) override {
      const std::lock_guard<std::mutex> lock(files_->mutex_);
      if (files_->reserve_error != 0) return files_->reserve_error;
      if (offset + bytes > files_->disk_bytes) return ENOSPC;
      files_->data.resize(std::max<size_t>(files_->data.size(), static_cast<size_t>(offset + bytes)));
      files_->most_bytes = std::max<int64_t>(files_->most_bytes, offset + bytes);
      return 0;
    }
    SpillIo Write(const void* data, int64_t bytes, int64_t offset) override {
      std::unique_lock<std::mutex> lock(files_->mutex_);
      SpillIo io = files_->Call(&lock, bytes, files_->write_error);
      if (offset + io.bytes > static_cast<int64_t>(files_->data.size())) io = {0, EIO};
      std::memcpy(files_->data.data() + offset, data, static_cast<size_t>(io.bytes));
      return io;
    }
    SpillIo Read(void* data, int64_t bytes, int64_t offset) override {
      std::unique_lock<std::mutex> lock(files_->mutex_);
      SpillIo io = files_->Call(&lock, bytes, files_->read_error);
      io.bytes = std::clamp<int64_t>(static_cast<int64_t>(files_->data.size()) - offset, 0, io.bytes);
      if (io.bytes > 0) std::memcpy(data, files_->data.data() + offset, static_cast<size_t>(io.bytes));
      return io;
    }
    int Truncate(int64_t bytes) override {
      const std::lock_guard<std::mutex> lock(files_->mutex_);
      files_->data.resize(static_cast<size_t>(bytes));
      return 0;
    }

   private:
    FaultyFiles* const files_;
  };

  SpillIo Call(std::unique_lock<std::mutex>* lock, int64_t bytes, int error) {
    ++calls;
    ++standing_;
    moved_.notify_all();
    moved_.wait(*lock, [this] { return !held_; });
    --standing_;
    if (interrupted > 0) {
      --interrupted;
      return {0, EINTR};
    }
    if (error != 0) return {0, error};
    return {std::min(bytes, at_most), 0};
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  bool held_ = false;
  int standing_ = 0;
};

}  // namespace lms

#endif  // LMS_TESTS_CC_CORE_FAULTY_FILES_H_
