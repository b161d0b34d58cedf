#include "tests/standin/link.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/standin/memory.h"
#include "tests/standin/settings.h"

namespace standin {
namespace {

constexpr int64_t kLarge = 1 << 16;  // of a copy, where nothing is computed

struct State {
  std::mutex mutex;
  std::array<Traffic, 3> traffic;
  std::array<int64_t, 3> fail_after{};
};

State& TheState() {
  static State* const state = new State;
  return *state;
}

std::string Wrong(Way way, const void* to, const void* from, int64_t bytes) {
  const bool to_device = way != Way::kOut;
  const bool from_device = way != Way::kIn;
  if ((OwnerOf(to, bytes) == Owner::kDevice) != to_device)
    return to_device ? "it ends outside of the device" : "it ends on the device";
  if ((OwnerOf(from, bytes) == Owner::kDevice) != from_device) {
    return from_device ? "it begins outside of the device" : "it begins on the device";
  }
  return "";
}

}  // namespace

std::string Refused(Way way, const void* to, const void* from, int64_t bytes) {
  const std::string wrong = Wrong(way, to, from, bytes);
  const bool pageable = way != Way::kWithin && OwnerOf(way == Way::kOut ? to : from, bytes) == Owner::kHost;
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto index = static_cast<size_t>(way);
  Traffic& traffic = state.traffic[index];
  ++traffic.copies;
  traffic.bytes += bytes;
  if (pageable) traffic.pageable_bytes += bytes;
  if (!wrong.empty()) {
    ++traffic.wrong;
    std::fprintf(stderr, "standin: a copy of %ld bytes: %s\n", static_cast<long>(bytes), wrong.c_str());
    return "stand-in: a copy of the wrong memory: " + wrong;
  }
  int64_t& fail = state.fail_after[index];
  if (fail <= 0) return "";
  --fail;
  return fail == 0 ? "stand-in: this copy was asked to fail" : "";
}

void Copy(Way way, void* to, const void* from, int64_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  if (Get().compute || bytes < kLarge) std::memcpy(View(to), View(from), bytes);
  if (way != Way::kWithin) {
    const Settings& settings = Get();
    const double speed = way == Way::kOut ? settings.out_gb_per_s : settings.in_gb_per_s;
    const double nanoseconds = settings.latency_us * 1e3 + static_cast<double>(bytes) / speed;
    std::this_thread::sleep_until(begin + std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds)));
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.traffic[static_cast<size_t>(way)].microseconds +=
      std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
}

Traffic TrafficOf(Way way) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.traffic[static_cast<size_t>(way)];
}

void FailCopy(Way way, int64_t after) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.fail_after[static_cast<size_t>(way)] = after;
}

}  // namespace standin
