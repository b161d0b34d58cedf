// Pinned memory that swapped tensors take in this process: counted, and bounded where a swap says by how much.
//
// Thread-safety: InUse, Peak and ResetPeak, and different objects.

#ifndef LMS_CC_TF_RUNTIME_HOST_BYTES_H_
#define LMS_CC_TF_RUNTIME_HOST_BYTES_H_

#include <cstdint>

namespace lms {

class HostBytes {
 public:
  enum class Taken {
    kYes,
    kNo,     // all together would exceed the limit
    kLater,  // only copies that nobody waits for keep room taken, and they end
  };

  HostBytes() = default;
  ~HostBytes() { Release(); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  // False, and nothing is taken, where all together would exceed `limit` (0: none).
  bool Take(int64_t bytes, int64_t limit);
  // The same for who may come while the copies of those before are still under way: the host runs ahead of the device,
  // into steps to come, and may not take more for that than steps took that waited. kLater: nothing is taken; with
  // `wait` it waits instead.
  Taken TakeBehindCopies(int64_t bytes, int64_t limit, bool wait);
  // From now on a copy that is under way is all that keeps them.
  void LeaveToCopy();
  void Release();

  static int64_t InUse();
  static int64_t Peak();
  static void ResetPeak();

 private:
  int64_t bytes_ = 0;
  bool left_to_copy_ = false;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_HOST_BYTES_H_
