#include "cc/core/base/deadline.h"

#include <time.h>

#include <cstdio>

#include "cc/core/base/waited.h"

namespace lms {

double Deadline::Now() {
  timespec time{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return Waited();
  return Waited() + static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void Deadline::Check() const {
  if (!Passed()) return;
  char text[80];
  std::snprintf(text, sizeof(text), "it took more than %.3g s of the processor%s", seconds_,
                Waited() > 0 ? ", with what was waited for a disk" : "");
  throw TooMuch(text);
}

}  // namespace lms
