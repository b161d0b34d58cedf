// The link between the host and the devices: copies take as long as the bytes need at the speed that is set, are
// counted, are checked for the kind of memory on either side, and fail where a test asks for it. Thread-safe.

#ifndef LMS_TESTS_STANDIN_LINK_H_
#define LMS_TESTS_STANDIN_LINK_H_

#include <cstdint>
#include <string>

namespace standin {

enum class Way { kOut, kIn, kWithin };  // from a device to the host, to it, on it

struct Traffic {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t pageable_bytes = 0;  // of these, of host memory that is not pinned
  int64_t wrong = 0;           // copies refused: a side was not the memory that it should be
  int64_t microseconds = 0;    // that copies took
};

// May these bytes be copied so? Counts the copy. Otherwise the message why not. `to` and `from` are addresses.
std::string Refused(Way way, const void* to, const void* from, int64_t bytes);

// Copies, on the calling thread, which waits as long as the link takes.
void Copy(Way way, void* to, const void* from, int64_t bytes);

Traffic TrafficOf(Way way);

// The `after`th copy from now over the link in this direction fails, once; 0: none.
void FailCopy(Way way, int64_t after);

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_LINK_H_
