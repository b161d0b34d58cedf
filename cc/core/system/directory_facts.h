// What can be known of a directory before bytes are put there: may files be made in it, how much is free, and which
// file system it is on.
//
// Thread-safety: all functions. Linux only, as the rest of lms is.

#ifndef LMS_CC_CORE_SYSTEM_DIRECTORY_FACTS_H_
#define LMS_CC_CORE_SYSTEM_DIRECTORY_FACTS_H_

#include <cstdint>
#include <string>

namespace lms {

struct DirectoryFacts {
  std::string problem;      // why no file can be made there; "": it can
  int64_t free_bytes = 0;   // that this user may still take
  bool in_memory = false;   // files in it take the machine's memory
  std::string file_system;  // what its speed is kept under: "254:1 /dev/vda1", or the directory's own full path
};

// Makes a file there, which has no name or loses it at once.
DirectoryFacts LookAtDirectory(const std::string& directory);

// The directory for swapping where none was named: $LMS_SPILL_DIR, else $TMPDIR, else /var/tmp (on a disk where /tmp
// may be memory), else /tmp.
std::string DirectoryForSpilling();

// The source ("/dev/vda1") of the file system with these numbers, in the text of /proc/self/mountinfo; "" where it does
// not say.
std::string MountSource(const std::string& mountinfo, unsigned major, unsigned minor);

}  // namespace lms

#endif  // LMS_CC_CORE_SYSTEM_DIRECTORY_FACTS_H_
