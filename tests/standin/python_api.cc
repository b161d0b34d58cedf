// What standin.py calls.
#include <cstdint>

#include "tests/standin/arena.h"
#include "tests/standin/link.h"
#include "tests/standin/memory.h"

#define STANDIN_API extern "C" __attribute__((visibility("default")))

// Five figures for each way, as in Traffic; then bytes of pinned memory.
STANDIN_API void standin_traffic(int64_t* figures) {
  for (const standin::Way way : {standin::Way::kOut, standin::Way::kIn, standin::Way::kWithin}) {
    const standin::Traffic traffic = standin::TrafficOf(way);
    for (const int64_t figure :
         {traffic.copies, traffic.bytes, traffic.pageable_bytes, traffic.wrong, traffic.microseconds}) {
      *figures++ = figure;
    }
  }
  *figures = standin::PinnedBytesInUse();
}

// Four figures, as in Chunks.
STANDIN_API void standin_chunks(int device, int64_t* figures) {
  const standin::Chunks chunks = standin::ChunksOf(device);
  for (const int64_t figure : {chunks.in_use, chunks.requested, chunks.free, chunks.largest_free}) *figures++ = figure;
}

STANDIN_API void standin_print_chunks(int device, int64_t least) { standin::PrintChunks(device, least); }

STANDIN_API void* standin_first_address(int device) { return standin::FirstAddress(device); }

STANDIN_API void standin_fail_copy(int way, int64_t after) { standin::FailCopy(static_cast<standin::Way>(way), after); }
