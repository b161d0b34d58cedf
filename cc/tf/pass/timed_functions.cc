#include "cc/tf/pass/timed_functions.h"

namespace lms {

NamedLists<TimedFunction>& TimedFunctions() {
  static auto* const functions = new NamedLists<TimedFunction>;
  return *functions;
}

}  // namespace lms
