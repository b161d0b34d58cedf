// What the operations of one machine were measured to take, and what that says about those that were not measured.
//
// A profile belongs to one place: a device with its number of threads, a version of TensorFlow and of lms, oneDNN on or
// off. It maps keys of operations (op_key.h: type, attributes, shapes) to the median of their measured times, each
// beside the static estimate of the same operation, so that estimates can be brought to the unit of measurements.
//
// As text, a statement a line, tokens as in text_reader.h:
//   lms-profile 1
//   device "CPU AuthenticAMD 401 cores 2 threads 2"
//   tensorflow 2.21.0
//   lms 0.1.0
//   onednn on
//   op "Relu(float[8,16])->float[8,16] 0123456789abcdef" 12.5 0.75 10      (microseconds, the estimate's, samples)
//
// Plain data: a profile that nobody changes may be read by several threads.

#ifndef LMS_CC_CORE_PROFILE_PROFILE_H_
#define LMS_CC_CORE_PROFILE_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lms {

struct ProfilePlace {
  std::string device;  // type, model, cores and threads
  std::string tensorflow;
  std::string lms;
  bool onednn = false;

  // "" when they are the same, otherwise what is not.
  std::string DifferenceTo(const ProfilePlace& other) const;
};

struct ProfileEntry {
  double measured_us = 0;  // median
  double estimated_us = 0;
  int64_t samples = 0;
};

// The operation's type: what its key starts with.
std::string_view TypeOfKey(std::string_view key);

struct Profile {
  ProfilePlace place;
  std::map<std::string, ProfileEntry> entries;
};

// Prices of operations by a profile, which must outlive it. Made in O(n log n), asked in O(log n).
class ProfilePrices {
 public:
  explicit ProfilePrices(const Profile& profile);

  struct Price {
    double us = 0;
    bool measured = false;
  };

  // The measured time of the key. Without one the static estimate, times what operations of the same type were measured
  // to take beside theirs; where none of the type was, what all operations were. Never below the time that the quickest
  // tenth of the operations takes.
  Price Of(const std::string& key, double estimated_us) const;

  double RatioOf(std::string_view op_type) const;
  double least_us() const { return least_us_; }

 private:
  const Profile& profile_;
  std::map<std::string, double, std::less<>> ratios_;  // by type
  double ratio_ = 1;                                   // over all
  double least_us_ = 0;
};

std::string ProfileText(const Profile& profile);

// Reads any bytes: "" or "name:line: reason". *profile is left untouched where there is a problem.
std::string ParseProfile(std::string_view text, const std::string& name, Profile* profile);

}  // namespace lms

#endif  // LMS_CC_CORE_PROFILE_PROFILE_H_
