#include "cc/tf/pass/library.h"

#include <algorithm>
#include <vector>

#include "cc/tf/pass/optimizer.h"
#include "lms_build_facts.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#if LMS_TF_VERSION_NUMBER >= 2018
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace lms {

std::map<std::string, std::string> BuildFacts() {
  return {{"lms_version", LMS_VERSION},
          {"tensorflow_version", LMS_TF_VERSION},
          {"compiler", LMS_COMPILER},
          {"cxx11_abi", LMS_CXX11_ABI}};
}

bool RegisterOptimizer() {
  using Registry = tensorflow::grappler::CustomGraphOptimizerRegistry;
  const std::vector<std::string> registered = Registry::GetRegisteredOptimizers();
  if (std::find(registered.begin(), registered.end(), kOptimizerName) != registered.end()) return false;
  Registry::RegisterOptimizerOrDie([]() { return new LmsOptimizer; }, kOptimizerName);
  return true;
}

bool IsTheOneRegistered() {
  static const bool registered = RegisterOptimizer();
  return registered;
}

int SetLeastLogged(int severity) {
#if LMS_TF_VERSION_NUMBER >= 2018
  const int before = static_cast<int>(absl::MinLogLevel());
  absl::SetMinLogLevel(static_cast<absl::LogSeverityAtLeast>(severity));
  return before;
#else
  static_cast<void>(severity);
  return -1;
#endif
}

}  // namespace lms
