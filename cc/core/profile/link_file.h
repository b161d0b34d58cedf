// What links to other tiers were measured to carry, kept beside the device's profile so that it is measured once.
//
// A file belongs to a device and a version of lms. In it each link has a tier and a place on it: of a disk the file
// system (directory_facts.h), of the host's memory "". As text, a statement a line, tokens as in text_reader.h:
//   lms-link 1
//   device "CPU AuthenticAMD 401"
//   lms 0.1.0
//   link disk "254:1 /dev/vda1" 3400 1700 0.6 0.4 150 0.0002 1795257000
// the numbers being bytes per microsecond out and in, the share of each while the other is busy too, latency in
// microseconds, microseconds per byte taken from the ops, and when it was measured, in seconds since 1970.
//
// A file that is damaged, or of another place, counts as none, with the reason; the next measurement replaces it.
// Written as kept_file.h says. All functions may be called from several threads and processes.

#ifndef LMS_CC_CORE_PROFILE_LINK_FILE_H_
#define LMS_CC_CORE_PROFILE_LINK_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "cc/core/graph/swap_link.h"

namespace lms {

// Disks fill up and grow old, machines move: a link is measured again after this.
inline constexpr int64_t kMostLinkAgeSeconds = int64_t{24} * 3600;

struct LinkKey {
  std::string tier;   // "host" or "disk"
  std::string where;  // on it

  bool operator<(const LinkKey& other) const { return std::tie(tier, where) < std::tie(other.tier, other.where); }
};

struct MeasuredLink {
  SwapLink link;  // its capacity is not kept: it is another one each time
  int64_t unix_seconds = 0;
};

struct LinkFile {
  std::string device;
  std::string lms;
  std::map<LinkKey, MeasuredLink> links;
};

std::string LinkFileText(const LinkFile& file);

// Reads any bytes: "" or "name:line: reason". *file is left untouched where there is a problem.
std::string ParseLinkFile(std::string_view text, const std::string& name, LinkFile* file);

// The device's own file, in the directory of the profiles. "" where the environment names no directory.
std::string DefaultLinkPath(const std::string& device);

// Nothing where the link is to be measured (again); *why then says what is wrong with what there is, "" where there is
// nothing. `now` in seconds since 1970.
std::optional<MeasuredLink> FindLink(const std::string& path, const std::string& device, const std::string& lms,
                                     const LinkKey& key, int64_t now, std::string* why);

// Adds the link to the file, in the place of the one of the same key; makes file and directories where they are
// missing. "" or the problem.
std::string StoreLink(const std::string& path, const std::string& device, const std::string& lms, const LinkKey& key,
                      const MeasuredLink& measured);

// The shares between nothing and 1, no number below 0: what is stored and planned with whatever was measured.
SwapLink Plausible(const SwapLink& link);

}  // namespace lms

#endif  // LMS_CC_CORE_PROFILE_LINK_FILE_H_
