#include "cc/tf/failure.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

namespace lms {
namespace {

struct Injected {
  std::mutex mutex;
  std::string stage;
};

Injected& State() {
  static auto* const state = new Injected;
  return *state;
}

}  // namespace

const std::vector<std::string>& Stages() {
  static const auto* const stages =
      new std::vector<std::string>{"options", "sums",  "index", "sizes", "import",  "liveness",
                                   "budget",  "costs", "swap",  "plan",  "rewrite", "verify"};
  return *stages;
}

bool InjectFailure(const std::string& stage) {
  if (!stage.empty() && std::find(Stages().begin(), Stages().end(), stage) == Stages().end()) return false;
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().stage = stage;
  return true;
}

void FailIfInjected(const std::string& stage) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  if (State().stage == stage) throw std::runtime_error("failure injected into stage " + stage);
}

}  // namespace lms
