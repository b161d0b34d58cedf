// Work whose memory lies together.
//
// Grappler's passes copy the whole graph again and again and free the copies in pieces. What is then allocated in the
// same thread lies scattered between what is left, and going through it takes a third longer. The malloc of glibc gives
// another thread another arena.

#ifndef LMS_CC_CORE_BASE_OWN_HEAP_H_
#define LMS_CC_CORE_BASE_OWN_HEAP_H_

#include <functional>

namespace lms {

// Runs `work` in a thread of its own and waits for it; in the caller's, where none can be started. Rethrows.
void OnOwnHeap(const std::function<void()>& work);

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_OWN_HEAP_H_
