#include "cc/core/base/own_heap.h"

#include <exception>
#include <system_error>
#include <thread>

namespace lms {

void OnOwnHeap(const std::function<void()>& work) {
  std::exception_ptr thrown;
  std::thread thread;
  try {
    thread = std::thread([&work, &thrown] {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
  } catch (const std::system_error&) {
    work();
    return;
  }
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace lms
