// Virtual tables as data, for classes whose objects are made elsewhere and whose calls one wants to see.
//
// An object gets a copy of its class's virtual table in which some entries are other functions. Only that object is
// affected; the class, its other objects, dynamic_cast and typeid are not. Nothing read-only is written.
//
// Needs the Itanium C++ ABI as Linux uses it on x86-64 and aarch64 (the table's entries are plain code pointers, a
// pointer to a virtual member function holds the entry's byte offset) and single, non-virtual inheritance. What can be
// checked is checked: each function returns a reason instead where something is not as expected.
//
// Thread-safety: SetTable is one atomic store; a call under way on another thread uses the old or the new table.

#ifndef LMS_CC_CORE_SYSTEM_VIRTUAL_TABLE_H_
#define LMS_CC_CORE_SYSTEM_VIRTUAL_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace lms {

// Must outlive every object that uses it. Entries past those of the class repeat what lies behind its table.
struct VirtualTableCopy {
  static constexpr size_t kPrefix = 2;    // offset to top, type information
  static constexpr size_t kEntries = 96;  // more than any class this is meant for
  std::array<void*, kPrefix + kEntries> words{};

  void** table() { return words.data() + kPrefix; }
};

// The entry that calls through `member`, or -1 when `member` is not virtual or the ABI is another.
template <typename Member>
int VirtualEntry(Member member) {
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  struct {
    intptr_t pointer;
    intptr_t adjustment;
  } parts;
  static_assert(sizeof(member) == sizeof(parts), "a pointer to member function has two words");
  std::memcpy(&parts, &member, sizeof(parts));
#if defined(__aarch64__)
  const bool is_virtual = parts.adjustment == 1;
  const intptr_t offset = parts.pointer;
#else
  const bool is_virtual = (parts.pointer & 1) != 0 && parts.adjustment == 0;
  const intptr_t offset = parts.pointer - 1;
#endif
  constexpr auto kWord = static_cast<intptr_t>(sizeof(void*));
  if (!is_virtual || offset < 0 || offset % kWord != 0) return -1;
  return static_cast<int>(offset / kWord);
#else
  (void)member;
  return -1;
#endif
}

// The table that `object` uses now.
void** TableOf(const void* object);

// Makes `object` use `table`.
void SetTable(void* object, void** table);

// Puts `replacement` into an entry of the copy; *saved is what the original has there.
template <typename Function>
void ReplaceEntry(void** original, VirtualTableCopy* copy, int entry, Function replacement, Function* saved) {
  *saved = reinterpret_cast<Function>(original[entry]);
  copy->table()[entry] = reinterpret_cast<void*>(replacement);
}

// Copies the table that `object` uses. Returns "" or why it does not look like one: it must lie in a loaded library,
// belong to a complete object and have code in each of `entries`.
std::string CopyTable(const void* object, const int* entries, size_t entry_count, VirtualTableCopy* copy);

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_VIRTUAL_TABLE_H_
