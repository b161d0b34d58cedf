#include "cc/tf/runtime/host_bytes.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace lms {
namespace {

struct Account {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t in_use = 0;
  int64_t left_to_copies = 0;  // of that
  int64_t peak = 0;
  int64_t most_held = 0;  // the most that was in use and not left to copies
};

Account& All() {
  static auto* const account = new Account;
  return *account;
}

// With the mutex held.
void Add(int64_t bytes, Account* all) {
  all->in_use += bytes;
  all->peak = std::max(all->peak, all->in_use);
  all->most_held = std::max(all->most_held, all->in_use - all->left_to_copies);
}

}  // namespace

bool HostBytes::Take(int64_t bytes, int64_t limit) {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (limit > 0 && all.in_use + bytes > limit) return false;
  Add(bytes, &all);
  bytes_ += bytes;
  return true;
}

HostBytes::Taken HostBytes::TakeBehindCopies(int64_t bytes, int64_t limit, bool wait) {
  Account& all = All();
  std::unique_lock<std::mutex> lock(all.mutex);
  for (;;) {
    const int64_t without_copies = all.in_use - all.left_to_copies + bytes;
    if (limit > 0 && without_copies > limit) return Taken::kNo;
    const int64_t most = std::max(all.most_held, without_copies);
    if (all.in_use + bytes <= (limit > 0 ? std::min(limit, most) : most)) break;
    if (!wait) return Taken::kLater;
    all.changed.wait(lock);
  }
  Add(bytes, &all);
  bytes_ += bytes;
  return Taken::kYes;
}

void HostBytes::LeaveToCopy() {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!std::exchange(left_to_copy_, true)) all.left_to_copies += bytes_;
}

void HostBytes::Release() {
  Account& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (std::exchange(left_to_copy_, false)) all.left_to_copies -= bytes_;
  all.in_use -= std::exchange(bytes_, 0);
  all.changed.notify_all();
}

int64_t HostBytes::InUse() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return All().in_use;
}

int64_t HostBytes::Peak() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return All().peak;
}

void HostBytes::ResetPeak() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().peak = All().in_use;
}

}  // namespace lms
