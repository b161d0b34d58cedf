// The memory this process may still take on this machine, in bytes.
//
// The least of: the memory limits (cgroup v2 and v1) of the process's group and of every group above it, less what is
// used there (page cache that the kernel would give up first does not count as used); RLIMIT_DATA less VmData;
// RLIMIT_AS less VmSize; MemAvailable of the machine. A bound that cannot be read is left out.
//
// What the process itself holds but does not use (free lists of malloc) counts as taken, unless the caller knows of it
// (`idle_bytes`, of the two limits on what is mapped): the figure is what can be *added*, never too high by it. Address
// space once mapped stays in VmData until it is unmapped, so RLIMIT_DATA bounds what the allocator ever held at a time,
// not what is in use.
//
// Thread-safety: all functions. A reading is a moment's: other processes may take memory at any time.

#ifndef LMS_CC_CORE_SYSTEM_SYSTEM_MEMORY_H_
#define LMS_CC_CORE_SYSTEM_SYSTEM_MEMORY_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace lms {

struct MemoryAvailable {
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  int64_t bytes = kUnbounded;  // never negative
  std::string bound = "none";  // which bound decided: "cgroup", "RLIMIT_DATA", "RLIMIT_AS", "MemAvailable", "none"
};

// Where the figures come from; the tests give their own.
struct MemorySources {
  std::string meminfo;                         // text of /proc/meminfo
  std::string status;                          // text of /proc/self/status
  std::string cgroup;                          // text of /proc/self/cgroup
  std::string cgroup_root = "/sys/fs/cgroup";  // directory
  std::optional<int64_t> data_limit;           // RLIMIT_DATA, nothing when unlimited
  std::optional<int64_t> address_space_limit;  // RLIMIT_AS, nothing when unlimited
  int64_t idle_bytes = 0;  // mapped already and free for use: VmData and VmSize have them, pages they need not have
};

MemoryAvailable AvailableMemory(int64_t idle_bytes = 0);

MemoryAvailable AvailableMemory(const MemorySources& sources);

// The sources of this process, now.
MemorySources ReadMemorySources();

// The bytes in a line such as "VmData:   123 kB" of `text`; nothing where there is no such line.
std::optional<int64_t> FieldBytes(const std::string& text, const std::string& field);

// The bytes left in the tightest of the memory cgroups named in `cgroup` (the text of /proc/self/cgroup) and those
// above them; nothing where none has a limit. A group that is not visible below `root`, as in a container, is passed
// over for the nearest one above that is.
std::optional<int64_t> CgroupBytesLeft(const std::string& cgroup, const std::string& root);

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_SYSTEM_MEMORY_H_
