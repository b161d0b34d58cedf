#include "cc/tf/runtime/pending_spill.h"

#include <mutex>
#include <utility>

namespace lms {

struct PendingSpill::State {
  std::mutex mutex;
  Place place;
  bool wanted = true;
  bool begun = false;  // an I/O thread may be reading the pinned copy
};

PendingSpill::PendingSpill(const std::string& writer, SpillStore* store, std::shared_ptr<Staging> staging,
                           SpillRequest request)
    : store_(store), state_(std::make_shared<State>()) {
  const absl::string_view bytes = staging->host().tensor_data();
  state_->place.pinned = std::move(staging);
  request.cancelled = [state = state_] {
    const std::lock_guard<std::mutex> lock(state->mutex);
    if (!state->wanted) return true;
    state->begun = true;
    return false;
  };
  store->Write(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(request),
               [state = state_, writer](const SpillStatus& status, SpillHandle entry) {
                 Place before;  // goes without the mutex: its staging may be what others wait for
                 const std::lock_guard<std::mutex> lock(state->mutex);
                 if (state->wanted) {
                   std::swap(before, state->place);
                   state->place = {status, nullptr, std::move(entry)};
                   if (!status.ok()) state->place.status.message = writer + ": " + status.message;
                 } else {
                   before.pinned = std::move(state->place.pinned);
                 }
               });
}

PendingSpill::~PendingSpill() {
  Place last;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->wanted = false;
  last.entry = std::move(state_->place.entry);
  if (!state_->begun) last.pinned = std::move(state_->place.pinned);
}

PendingSpill::Place PendingSpill::Now() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->place;
}

}  // namespace lms
