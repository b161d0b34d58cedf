// How long a thread has waited for something outside of the process: a disk, a lock that another program holds.
//
// Deadlines (deadline.h) count the processor's time, which does not pass meanwhile. Who waits so bounds it in time, and
// says afterwards how long it took: it counts like the processor's. Of each thread its own.

#ifndef LMS_CC_CORE_BASE_WAITED_H_
#define LMS_CC_CORE_BASE_WAITED_H_

namespace lms {

// The calling thread has waited so long.
void AddWaited(double seconds);

// Seconds, since the thread began.
double Waited();

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_WAITED_H_
