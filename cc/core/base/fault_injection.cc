#include "cc/core/base/fault_injection.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <stdexcept>

namespace lms {
namespace {

struct Injected {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::string stage;
  std::string kind;
  int left = 0;   // times that the stage may still be entered
  int times = 0;  // that it fails then; 0: always
};

Injected& State() {
  static auto* const state = new Injected;
  return *state;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::vector<std::string>& Stages() {
  static const auto* const stages =
      new std::vector<std::string>{"options", "sums",  "index", "sizes", "shapes",  "import", "liveness",
                                   "budget",  "costs", "swap",  "plan",  "rewrite", "verify"};
  return *stages;
}

const std::vector<std::string>& FailurePlaces() {
  static const auto* const places = new std::vector<std::string>{"before", "dump",     "log",     "report", "profile",
                                                                 "link",   "describe", "details", "least",  "strict"};
  return *places;
}

const std::vector<std::string>& FailureKinds() {
  static const auto* const kinds = new std::vector<std::string>{"error", "memory", "other"};
  return *kinds;
}

bool InjectFailure(const std::string& stage, const std::string& kind, int at, int times) {
  if (!stage.empty() && !Has(Stages(), stage) && !Has(FailurePlaces(), stage)) return false;
  if (!Has(FailureKinds(), kind)) return false;
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().stage = stage;
  State().kind = kind;
  State().left = at - 1;
  State().times = times;
  State().any = !stage.empty();
  return true;
}

void FailIfInjected(const std::string& stage) {
  if (!State().any) return;
  std::string kind;
  {
    const std::lock_guard<std::mutex> lock(State().mutex);
    if (State().stage != stage) return;
    if (State().left > 0) {
      --State().left;
      return;
    }
    kind = State().kind;
    if (State().times > 0) {
      --State().times;
      State().any = State().times > 0;
    }
  }
  if (kind == "memory") throw std::bad_alloc();
  if (kind == "other") throw 1;  // NOLINT: some libraries do
  throw std::runtime_error("failure injected into " + std::string(Has(Stages(), stage) ? "stage " : "") + stage);
}

}  // namespace lms
