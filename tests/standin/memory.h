// The memory of the devices, and pinned memory of the host: what is whose, how much, and who may touch it.
//
// A block of a device has an address by which TensorFlow knows it, and a view through which kernels and copies reach
// it. They are the same, unless the guard is set (STANDIN_GUARD): then the address may not be touched at all, and
// whoever takes it for the host's is killed by SIGSEGV where it happens. A Gate opens it for kernels that cannot be
// given views. Thread-safe.

#ifndef LMS_TESTS_STANDIN_MEMORY_H_
#define LMS_TESTS_STANDIN_MEMORY_H_

#include <cstdint>

namespace standin {

// A block of `bytes` on device `device`; null where the device has less left.
void* AllocateOnDevice(int device, int64_t bytes);
void FreeOnDevice(void* address);
int64_t DeviceBytesInUse(int device);
void* FirstAddress(int device);  // of its blocks; null where it has none

// Pinned memory of the host; null above STANDIN_PINNED_MB.
void* AllocatePinned(int64_t bytes);
void FreePinned(void* address);
int64_t PinnedBytesInUse();

enum class Owner { kHost, kPinned, kDevice };
// Whose the bytes are; kHost as well where they are not in one block.
Owner OwnerOf(const void* address, int64_t bytes);

// Where kernels and copies reach what a device has at `address`; any other address as it is.
void* View(const void* address);
// Is this address one of a device's views?
bool IsView(const void* address);

// While one lives, addresses of devices can be touched although the guard is set.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
};

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_MEMORY_H_
