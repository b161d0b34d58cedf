#include "cc/tf/runtime/staging.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/core/system/system_memory.h"
#include "cc/tf/runtime/swap_memory.h"
#include "tensorflow/core/framework/types.h"

namespace lms {
namespace {

// Without swap_host_limit: so much of what the machine had left when it was first asked. A share that leaves room for
// the rest of the program; it only decides how far steps may run ahead of the disk.
constexpr int64_t kShareOfMachine = 4;

int64_t UsualLimit() {
  static const int64_t limit = std::max<int64_t>(1, AvailableMemory().bytes / kShareOfMachine);
  return limit;
}

}  // namespace

class StagingQueue {
 public:
  using Ready = std::function<void(const absl::Status&, std::shared_ptr<Staging>)>;

  static StagingQueue& Get() {
    static auto* const queue = new StagingQueue;
    return *queue;
  }

  void Take(StagingRequest request, Ready ready) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const Key key{request.deadline, next_number_++};
      waiting_.emplace(key, Waiting{std::move(request), std::move(ready)});
    }
    Serve();
  }

  void GiveBack() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --taken_;
    }
    Serve();
  }

 private:
  using Key = std::pair<int64_t, uint64_t>;  // deadline, number
  struct Waiting {
    StagingRequest request;
    Ready ready;
  };
  struct Answer {
    Ready ready;
    absl::Status status;
    std::shared_ptr<Staging> staging;
  };

  void Serve() {
    std::vector<Answer> answers;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (!waiting_.empty()) {
        const auto first = waiting_.begin();
        auto staging = std::make_shared<Staging>();
        absl::Status status = Fill(first->second.request, staging.get());
        if (status.ok()) {
          staging->counted_ = true;
          ++taken_;
        } else if (taken_ > 0) {
          break;  // some of that will be given back
        } else {
          staging.reset();
        }
        answers.push_back({std::move(first->second.ready), std::move(status), std::move(staging)});
        waiting_.erase(first);
      }
    }
    for (Answer& answer : answers) answer.ready(answer.status, std::move(answer.staging));
  }

  // With the mutex held.
  absl::Status Fill(const StagingRequest& request, Staging* staging) const {
    const int64_t bytes = request.shape.num_elements() * tensorflow::DataTypeSize(request.dtype);
    const int64_t usual = taken_ > 0 ? UsualLimit() : 0;
    if (!staging->bytes_.Take(bytes, request.limit > 0 ? request.limit : usual)) {
      return HostBytesExceeded(*request.context, bytes, request.limit);
    }
    absl::Status status =
        AllocatePinned(request.context, request.dtype, request.shape, /*wait=*/false, &staging->host_);
    if (!status.ok()) staging->bytes_.Release();
    return status;
  }

  std::mutex mutex_;
  std::map<Key, Waiting> waiting_;
  uint64_t next_number_ = 0;
  int64_t taken_ = 0;  // stagings that exist
};

Staging::~Staging() {
  host_ = tensorflow::Tensor();
  bytes_.Release();
  if (counted_) StagingQueue::Get().GiveBack();
}

void TakeStaging(StagingRequest request, std::function<void(const absl::Status&, std::shared_ptr<Staging>)> ready) {
  StagingQueue::Get().Take(std::move(request), std::move(ready));
}

}  // namespace lms
