// TensorFlow's own allocators on the stand-in's devices, as kernels saw them: chunks, holes. Thread-safe.

#ifndef LMS_TESTS_STANDIN_ARENA_H_
#define LMS_TESTS_STANDIN_ARENA_H_

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/allocator.h"

namespace standin {

struct Chunks {
  int64_t in_use = 0;     // bytes of the chunks that are in use
  int64_t requested = 0;  // bytes that were asked for of these
  int64_t free = 0;
  int64_t largest_free = 0;
};

// The allocator of the device with this name.
void NoteAllocator(const std::string& device, tensorflow::Allocator* allocator);
// Of device `index`; all zero before a kernel of the stand-in was made there.
Chunks ChunksOf(int index);
// Writes the chunks in use of at least `least` bytes to the error output: bytes, bytes asked for, op.
void PrintChunks(int index, int64_t least);

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_ARENA_H_
