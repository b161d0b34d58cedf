#include "cc/core/profile/link_file.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cc/core/system/kept_file.h"
#include "cc/core/text/text_reader.h"

namespace lms {
namespace {

constexpr char kLinkHeader[] = "lms-link";
constexpr double kLeastShare = 0.01;

class LinkParser {
 public:
  LinkParser(std::string_view text, const std::string& name) : reader_(text, name) {}

  std::string Run(LinkFile* file) {
    bool good = reader_.ReadHeader(kLinkHeader);
    while (good && reader_.Next()) good = Statement();
    if (good && reader_.error().empty() && file_.device.empty()) reader_.Fail("there is no device");
    if (!reader_.error().empty()) return reader_.error();
    *file = std::move(file_);
    return "";
  }

 private:
  bool Statement() {
    const std::vector<std::string_view>& tokens = reader_.tokens();
    if (tokens[0] == "link") return Link();
    std::string* text = tokens[0] == "device" ? &file_.device : tokens[0] == "lms" ? &file_.lms : nullptr;
    if (text == nullptr) return reader_.Fail("there is no statement " + Shown(tokens[0]));
    if (tokens.size() != 2 || tokens[1].empty()) return reader_.Fail(Shown(tokens[0]) + " takes one value");
    if (!text->empty()) return reader_.Fail("a second " + Shown(tokens[0]));
    *text = std::string(tokens[1]);
    return true;
  }

  bool Link() {
    const std::vector<std::string_view>& tokens = reader_.tokens();
    if (tokens.size() != 10) return reader_.Fail("'link' takes a tier, a place on it, and seven numbers");
    double numbers[6];
    for (size_t i = 0; i < 6; ++i) {
      const std::optional<double> number = ParseTextCost(tokens[3 + i]);
      if (!number) return reader_.Fail(Shown(tokens[3 + i]) + " is no number");
      numbers[i] = *number;
    }
    const std::optional<int64_t> seconds = ParseTextBytes(tokens[9]);
    if (!seconds) return reader_.Fail(Shown(tokens[9]) + " is no time");
    MeasuredLink measured;
    measured.unix_seconds = *seconds;
    SwapLink& link = measured.link;
    link.out_bytes_per_us = numbers[0];
    link.in_bytes_per_us = numbers[1];
    link.out_share = numbers[2];
    link.in_share = numbers[3];
    link.latency_us = numbers[4];
    link.compute_us_per_byte = numbers[5];
    if (!link.usable()) return reader_.Fail("a link that carries nothing");
    if (link.out_share <= 0 || link.out_share > 1 || link.in_share <= 0 || link.in_share > 1) {
      return reader_.Fail("a share is above 0 and at most 1");
    }
    if (tokens[1] != "host" && tokens[1] != "disk") return reader_.Fail(Shown(tokens[1]) + " is no tier");
    const LinkKey key{std::string(tokens[1]), std::string(tokens[2])};
    if (!file_.links.emplace(key, measured).second) return reader_.Fail("the link is there already");
    return true;
  }

  TextReader reader_;
  LinkFile file_;
};

// Why the file's links are not those of this place.
std::string ReadLinks(const std::string& path, const std::string& device, const std::string& lms, LinkFile* file) {
  std::string text;
  std::string problem = ReadKeptFile(path, &text);
  if (problem.empty()) problem = ParseLinkFile(text, path, file);
  if (!problem.empty()) return problem;
  if (file->device != device) return path + ": it was measured on " + file->device + ", this is " + device;
  if (file->lms != lms) return path + ": it was measured with lms " + file->lms + ", this is " + lms;
  return "";
}

double Number(double value) { return std::isfinite(value) && value > 0 ? std::min(value, kMostTextCostUs) : 0; }

double Share(double value) { return std::isfinite(value) ? std::clamp(value, kLeastShare, 1.0) : 1; }

}  // namespace

std::string LinkFileText(const LinkFile& file) {
  std::string text = std::string(kLinkHeader) + " 1\n";
  text += "device " + TokenText(file.device) + "\n";
  text += "lms " + TokenText(file.lms) + "\n";
  for (const auto& [key, measured] : file.links) {
    text += "link " + TokenText(key.tier) + " " + TokenText(key.where);
    const SwapLink& link = measured.link;
    for (const double number : {link.out_bytes_per_us, link.in_bytes_per_us, link.out_share, link.in_share,
                                link.latency_us, link.compute_us_per_byte}) {
      text += " " + CostText(number);
    }
    text += " " + std::to_string(measured.unix_seconds) + "\n";
  }
  return text;
}

std::string ParseLinkFile(std::string_view text, const std::string& name, LinkFile* file) {
  return LinkParser(text, name).Run(file);
}

std::string DefaultLinkPath(const std::string& device) { return KeptFilePath(device, ".link"); }

std::optional<MeasuredLink> FindLink(const std::string& path, const std::string& device, const std::string& lms,
                                     const LinkKey& key, int64_t now, std::string* why) {
  why->clear();
  FileStamp stamp;
  if (path.empty() || !StampOf(path, &stamp)) return std::nullopt;
  LinkFile file;
  *why = ReadLinks(path, device, lms, &file);
  if (!why->empty()) return std::nullopt;
  const auto found = file.links.find(key);
  if (found == file.links.end()) return std::nullopt;
  // A clock that was put back must not keep a figure for ever.
  const int64_t age = now - found->second.unix_seconds;
  if (age > kMostLinkAgeSeconds || age < -kMostLinkAgeSeconds) {
    *why = path + ": it was measured more than a day ago";
    return std::nullopt;
  }
  return found->second;
}

std::string StoreLink(const std::string& path, const std::string& device, const std::string& lms, const LinkKey& key,
                      const MeasuredLink& measured) {
  if (path.empty()) return "no place for it: set LMS_PROFILE_DIR";
  std::string problem = MakeDirectoriesFor(path);
  if (!problem.empty()) return problem;
  const KeptFileLock lock(path);
  if (!lock.problem().empty()) return lock.problem();
  LinkFile file;
  if (!ReadLinks(path, device, lms, &file).empty()) file = LinkFile();
  file.device = device;
  file.lms = lms;
  file.links[key] = {Plausible(measured.link), measured.unix_seconds};
  // A step's first call may wait for this. What is lost is measured again.
  return ReplaceKeptFile(path, LinkFileText(file), /*until_on_disk=*/false);
}

SwapLink Plausible(const SwapLink& link) {
  SwapLink result = link;
  result.out_bytes_per_us = Number(link.out_bytes_per_us);
  result.in_bytes_per_us = Number(link.in_bytes_per_us);
  result.latency_us = Number(link.latency_us);
  result.compute_us_per_byte = Number(link.compute_us_per_byte);
  result.out_share = Share(link.out_share);
  result.in_share = Share(link.in_share);
  return result;
}

}  // namespace lms
