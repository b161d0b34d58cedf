#include "cc/core/system/virtual_table.h"

#if defined(__linux__)
#include <link.h>
#endif

#include <algorithm>

namespace lms {
namespace {

struct Segment {
  uintptr_t address = 0;  // what is looked for
  uintptr_t end = 0;      // 0: not found
  uintptr_t begin = 0;
  bool is_code = false;
};

#if defined(__linux__)
int VisitLibrary(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto* segment = static_cast<Segment*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const uintptr_t end = begin + header.p_memsz;
    if (segment->address < begin || segment->address >= end) continue;
    segment->begin = begin;
    segment->end = end;
    segment->is_code = (header.p_flags & PF_X) != 0;
    return 1;
  }
  return 0;
}
#endif

// The loaded segment that holds `address`.
Segment FindSegment(const void* address) {
  Segment segment;
  segment.address = reinterpret_cast<uintptr_t>(address);
#if defined(__linux__)
  dl_iterate_phdr(&VisitLibrary, &segment);
#endif
  return segment;
}

// A table does not say where it ends: what is copied is more, all of it in the table's segment. What lies there between
// two globals under AddressSanitizer is none of its business here; volatile, or the loop would be its memmove.
__attribute__((no_sanitize("address"))) void CopyWords(void* const volatile* from, size_t words, void** to) {
  for (size_t i = 0; i < words; ++i) to[i] = from[i];
}

}  // namespace

void** TableOf(const void* object) { return __atomic_load_n(static_cast<void** const*>(object), __ATOMIC_ACQUIRE); }

void SetTable(void* object, void** table) { __atomic_store_n(static_cast<void***>(object), table, __ATOMIC_RELEASE); }

std::string CopyTable(const void* object, const int* entries, size_t entry_count, VirtualTableCopy* copy) {
  void** const table = TableOf(object);
  void** const start = table - VirtualTableCopy::kPrefix;
  const Segment segment = FindSegment(start);
  if (segment.end == 0 || reinterpret_cast<uintptr_t>(table) % alignof(void*) != 0) {
    return "the object's virtual table does not lie in a loaded library";
  }
  if (start[0] != nullptr) return "the object is a base of a larger one";
  const size_t words = std::min(copy->words.size(), (segment.end - reinterpret_cast<uintptr_t>(start)) / sizeof(void*));
  for (size_t i = 0; i < entry_count; ++i) {
    const auto entry = static_cast<size_t>(entries[i]);
    if (entries[i] < 0 || VirtualTableCopy::kPrefix + entry >= words || !FindSegment(table[entry]).is_code) {
      return "the object's virtual table has no code in entry " + std::to_string(entries[i]);
    }
  }
  CopyWords(start, words, copy->words.data());
  std::fill(copy->words.begin() + static_cast<std::ptrdiff_t>(words), copy->words.end(), nullptr);
  return "";
}

}  // namespace lms
