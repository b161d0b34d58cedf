#include "cc/core/profile/profile.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cc/core/text/text_reader.h"

namespace lms {
namespace {

constexpr char kProfileHeader[] = "lms-profile";

// Times too short to say anything about a ratio: they are dispatch, not work.
constexpr double kLeastForRatioUs = 1;

struct Ratio {
  double value;
  double weight;
};

// Half of the weight is at or below it. Weighted by time: what is short is many, and costs little.
std::optional<double> WeightedMedian(std::vector<Ratio> ratios) {
  if (ratios.empty()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end(), [](const Ratio& a, const Ratio& b) { return a.value < b.value; });
  double total = 0;
  for (const Ratio& ratio : ratios) total += ratio.weight;
  double sum = 0;
  for (const Ratio& ratio : ratios) {
    sum += ratio.weight;
    if (2 * sum >= total) return ratio.value;
  }
  return ratios.back().value;
}

class ProfileParser {
 public:
  ProfileParser(std::string_view text, const std::string& name) : reader_(text, name) {}

  std::string Run(Profile* profile) {
    if (!reader_.ReadHeader(kProfileHeader)) return reader_.error();
    while (reader_.Next()) {
      if (!Statement()) return reader_.error();
    }
    for (const char* word : {"device", "tensorflow", "lms", "onednn"}) {
      if (seen_.count(word) == 0) reader_.Fail(std::string("the statement '") + word + "' is missing");
    }
    if (reader_.error().empty()) *profile = std::move(profile_);
    return reader_.error();
  }

 private:
  bool Statement() {
    const std::vector<std::string_view>& tokens = reader_.tokens();
    const std::string word(tokens[0]);
    if (word == "op") return Op();
    std::string* text = word == "device"       ? &profile_.place.device
                        : word == "tensorflow" ? &profile_.place.tensorflow
                        : word == "lms"        ? &profile_.place.lms
                                               : nullptr;
    if (text == nullptr && word != "onednn") return reader_.Fail("there is no statement " + Shown(word));
    if (tokens.size() != 2) return reader_.Fail("'" + word + "' takes one value");
    if (!seen_.emplace(word, reader_.line()).second) return reader_.Fail("a second '" + word + "'");
    if (text != nullptr) {
      *text = std::string(tokens[1]);
      return true;
    }
    if (tokens[1] != "on" && tokens[1] != "off") return reader_.Fail("onednn is 'on' or 'off'");
    profile_.place.onednn = tokens[1] == "on";
    return true;
  }

  bool Op() {
    const std::vector<std::string_view>& tokens = reader_.tokens();
    if (tokens.size() != 5) return reader_.Fail("'op' takes a key, two times in microseconds and a number of samples");
    const std::optional<double> measured = ParseTextCost(tokens[2]);
    const std::optional<double> estimated = ParseTextCost(tokens[3]);
    const std::optional<int64_t> samples = ParseTextBytes(tokens[4]);
    for (size_t i = 2; i < 4; ++i) {
      if (!(i == 2 ? measured : estimated)) return reader_.Fail(Shown(tokens[i]) + " is no time in microseconds");
    }
    if (!samples || *samples < 1) return reader_.Fail(Shown(tokens[4]) + " is no number of samples");
    if (TypeOfKey(tokens[1]).empty()) return reader_.Fail(Shown(tokens[1]) + " is no key: it has no type");
    if (!profile_.entries.emplace(std::string(tokens[1]), ProfileEntry{*measured, *estimated, *samples}).second) {
      return reader_.Fail("the key " + Shown(tokens[1]) + " is there already");
    }
    return true;
  }

  TextReader reader_;
  Profile profile_;
  std::map<std::string, int> seen_;
};

}  // namespace

std::string ProfilePlace::DifferenceTo(const ProfilePlace& other) const {
  if (device != other.device) return "it was measured on " + device + ", this is " + other.device;
  if (tensorflow != other.tensorflow) {
    return "it was measured with TensorFlow " + tensorflow + ", this is " + other.tensorflow;
  }
  if (lms != other.lms) return "it was measured with lms " + lms + ", this is " + other.lms;
  if (onednn != other.onednn) return std::string("it was measured with oneDNN ") + (onednn ? "on" : "off");
  return "";
}

std::string_view TypeOfKey(std::string_view key) {
  const size_t end = key.find('(');
  return end == std::string_view::npos ? std::string_view() : key.substr(0, end);
}

ProfilePrices::ProfilePrices(const Profile& profile) : profile_(profile) {
  std::map<std::string, std::vector<Ratio>, std::less<>> by_type;
  std::vector<Ratio> all;
  std::vector<double> times;
  for (const auto& [key, entry] : profile.entries) {
    if (entry.measured_us > 0) times.push_back(entry.measured_us);
    if (entry.measured_us < kLeastForRatioUs || entry.estimated_us <= 0) continue;
    all.push_back({entry.measured_us / entry.estimated_us, entry.measured_us});
    by_type[std::string(TypeOfKey(key))].push_back(all.back());
  }
  for (auto& [type, ratios] : by_type) ratios_[type] = WeightedMedian(std::move(ratios)).value_or(1);
  ratio_ = WeightedMedian(std::move(all)).value_or(1);
  if (!times.empty()) {
    std::nth_element(times.begin(), times.begin() + times.size() / 10, times.end());
    least_us_ = times[times.size() / 10];
  }
}

double ProfilePrices::RatioOf(std::string_view op_type) const {
  const auto found = ratios_.find(op_type);
  return found == ratios_.end() ? ratio_ : found->second;
}

ProfilePrices::Price ProfilePrices::Of(const std::string& key, double estimated_us) const {
  const auto found = profile_.entries.find(key);
  if (found != profile_.entries.end()) return {found->second.measured_us, true};
  // What is estimated to take nothing (views, markers) takes nothing.
  if (estimated_us <= 0) return {0, false};
  return {std::max(least_us_, estimated_us * RatioOf(TypeOfKey(key))), false};
}

std::string ProfileText(const Profile& profile) {
  std::string text = std::string(kProfileHeader) + " 1\n";
  text += "device " + TokenText(profile.place.device) + "\n";
  text += "tensorflow " + TokenText(profile.place.tensorflow) + "\n";
  text += "lms " + TokenText(profile.place.lms) + "\n";
  text += std::string("onednn ") + (profile.place.onednn ? "on" : "off") + "\n";
  for (const auto& [key, entry] : profile.entries) {
    text += "op " + TokenText(key) + " " + CostText(entry.measured_us) + " " + CostText(entry.estimated_us) + " " +
            std::to_string(entry.samples) + "\n";
  }
  return text;
}

std::string ParseProfile(std::string_view text, const std::string& name, Profile* profile) {
  return ProfileParser(text, name).Run(profile);
}

}  // namespace lms
