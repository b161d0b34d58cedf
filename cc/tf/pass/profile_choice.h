// Which profile prices a step: the place it runs in, and the option `profile`.

#ifndef LMS_CC_TF_PASS_PROFILE_CHOICE_H_
#define LMS_CC_TF_PASS_PROFILE_CHOICE_H_

#include <memory>
#include <string>

#include "cc/core/profile/profile.h"
#include "tensorflow/core/grappler/clusters/cluster.h"

namespace lms {

// `device` by its full name, as one of `cluster`, which may be null; `intra_op_threads` 0: TensorFlow's default.
ProfilePlace PlaceOf(const std::string& device, const tensorflow::grappler::Cluster* cluster, int intra_op_threads);

struct ChosenProfile {
  std::string path;
  std::shared_ptr<const Profile> profile;  // null: none
  std::string problem;                     // why a profile that is there, or was asked for, is not used
};

// `option`: "" for the place's own profile where there is one, "none", or a path.
ChosenProfile ChooseProfile(const std::string& option, const ProfilePlace& place);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_PROFILE_CHOICE_H_
