#include "cc/tf/pass/profile_choice.h"

#include <cstdlib>

#include "cc/core/profile/profile_file.h"
#include "lms_build_facts.h"
#include "tensorflow/core/grappler/clusters/utils.h"
#include "tensorflow/core/util/util.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

tensorflow::DeviceProperties PropertiesOf(const std::string& device, const grappler::Cluster* cluster) {
  if (cluster != nullptr) {
    const auto& devices = cluster->GetDevices();
    const auto found = devices.find(device);
    if (found != devices.end()) return found->second;
  }
  return grappler::GetLocalCPUInfo();
}

int Threads(int configured, int cores) {
  if (configured > 0) return configured;
  const char* text = std::getenv("TF_NUM_INTRAOP_THREADS");
  const int asked = text == nullptr ? 0 : static_cast<int>(std::strtol(text, nullptr, 10));
  return asked > 0 ? asked : cores;
}

}  // namespace

ProfilePlace PlaceOf(const std::string& device, const grappler::Cluster* cluster, int intra_op_threads) {
  const tensorflow::DeviceProperties properties = PropertiesOf(device, cluster);
  const int cores = static_cast<int>(properties.num_cores());
  ProfilePlace place;
  place.device =
      properties.type() + " " + properties.vendor() + " " + properties.model() + " cores " + std::to_string(cores);
  if (properties.type() == "CPU") place.device += " threads " + std::to_string(Threads(intra_op_threads, cores));
  place.tensorflow = LMS_TF_VERSION;
  place.lms = LMS_VERSION;
  place.onednn = tensorflow::IsMKLEnabled();
  return place;
}

ChosenProfile ChooseProfile(const std::string& option, const ProfilePlace& place) {
  ChosenProfile chosen;
  if (option == "none") return chosen;
  chosen.path = option.empty() ? DefaultProfilePath(place.device) : option;
  if (chosen.path.empty()) return chosen;
  chosen.profile = LoadProfile(chosen.path, &chosen.problem);
  if (!chosen.problem.empty()) {
    chosen.problem = "the profile cannot be used: " + chosen.problem;
  } else if (chosen.profile == nullptr) {
    if (!option.empty()) chosen.problem = "the profile " + option + " does not exist (lms.calibrate() makes it)";
  } else {
    const std::string difference = chosen.profile->place.DifferenceTo(place);
    if (!difference.empty()) {
      chosen.problem =
          "the profile " + chosen.path + " is not used: " + difference + " (lms.calibrate() makes it anew)";
      chosen.profile = nullptr;
    }
  }
  return chosen;
}

}  // namespace lms
