// Profiles as files: where they are, read through a cache, and added to (kept_file.h says how they are written).
//
// All functions may be called from several threads and processes.

#ifndef LMS_CC_CORE_PROFILE_PROFILE_FILE_H_
#define LMS_CC_CORE_PROFILE_PROFILE_FILE_H_

#include <map>
#include <memory>
#include <string>

#include "cc/core/profile/profile.h"

namespace lms {

// The device's own profile: $LMS_PROFILE_DIR, else $XDG_CACHE_HOME/lms/profiles or ~/.cache/lms/profiles, and in it one
// file per device. "" where the environment names no directory.
std::string DefaultProfilePath(const std::string& device);

// The file's profile, read once as long as the file does not change; null where it cannot be, with the reason. A file
// that does not exist is no problem: null and "".
std::shared_ptr<const Profile> LoadProfile(const std::string& path, std::string* problem);

struct ProfileWritten {
  std::string problem;   // "": the file holds the new entries
  std::string replaced;  // why what was there before was not kept ("" where it was, or there was nothing)
};

// Adds the entries to the profile at `path`, where they replace those of the same key; makes file and directories where
// they are missing. A file of another place, or one that cannot be read as a profile, is moved to NAME.old, over the
// one that may be there.
ProfileWritten AddToProfile(const std::string& path, const ProfilePlace& place,
                            const std::map<std::string, ProfileEntry>& entries);

}  // namespace lms

#endif  // LMS_CC_CORE_PROFILE_PROFILE_FILE_H_
