#include "cc/tf/pass/swap_choice.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "cc/core/base/bytes.h"
#include "cc/core/base/waited.h"
#include "cc/core/spill/disk_link.h"
#include "cc/core/system/system_memory.h"
#include "cc/tf/graph/handed_copies.h"
#include "cc/tf/graph/node_types.h"
#include "lms_build_facts.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/clusters/utils.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace lms {
namespace {

namespace grappler = tensorflow::grappler;

constexpr char kHost[] = "host";
constexpr char kDisk[] = "disk";
constexpr double kAssumedHostRate = 6000;  // bytes per microsecond: PCIe of the third generation, half used
constexpr double kAssumedShare = 0.5;
constexpr int64_t kLeastRoom = int64_t{1} << 20;
constexpr int64_t kMeasuredBytes = int64_t{64} << 20;  // taken of the memory as well, when it is short

bool IsCpu(const std::string& device) { return device.find("CPU:") != std::string::npos; }

// Its full path: a program may go elsewhere before its first step runs.
std::string DirectoryOf(const std::string& swap_to) {
  const std::string directory = swap_to == kDisk ? DirectoryForSpilling() : swap_to;
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(directory, error);
  return error ? directory : full.lexically_normal().string();
}

std::string Day(int64_t unix_seconds) {
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", seconds);
  return text;
}

std::string RatesText(const SwapLink& link) {
  char text[96];
  std::snprintf(text, sizeof(text), "%.3g GB/s out, %.3g GB/s in%s", link.out_bytes_per_us / 1e3,
                link.in_bytes_per_us / 1e3, link.one_lane() ? ", one at a time" : "");
  return text;
}

// Figures for which no file could be found or written are good for this process at least.
class Memory {
 public:
  std::optional<MeasuredLink> Find(const std::string& place, const LinkKey& key, int64_t now) {
    const auto found = links_.find({place, key});
    if (found == links_.end() || now - found->second.unix_seconds > kMostLinkAgeSeconds) return std::nullopt;
    return found->second;
  }
  void Keep(const std::string& place, const LinkKey& key, const MeasuredLink& measured) {
    links_[{place, key}] = measured;
  }

 private:
  std::map<std::pair<std::string, LinkKey>, MeasuredLink> links_;
};

// What threads share. Nobody holds the mutex while he measures, or reads or writes a file.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool measuring = false;  // some thread is: two at once would spoil each other's figures
  Memory memory;
};

// Never destroyed: a measurement that nobody waits for any more may end late.
Shared& TheShared() {
  static auto* const shared = new Shared;
  return *shared;
}

struct Known {
  std::optional<MeasuredLink> measured;
  std::string why;  // nothing is known, or not from the file
};

Known Look(const std::string& place, const LinkKey& key, int64_t now) {
  Known known;
  known.measured = FindLink(DefaultLinkPath(place), place, LMS_VERSION, key, now, &known.why);
  if (known.measured) return known;
  const std::lock_guard<std::mutex> lock(TheShared().mutex);
  known.measured = TheShared().memory.Find(place, key, now);
  return known;
}

// "" or why it could not be kept for other programs.
std::string Keep(const std::string& place, const LinkKey& key, const MeasuredLink& measured) {
  {
    const std::lock_guard<std::mutex> lock(TheShared().mutex);
    TheShared().memory.Keep(place, key, measured);
  }
  return StoreLink(DefaultLinkPath(place), place, LMS_VERSION, key, measured);
}

// A link and the words on where its figures come from.
struct FoundLink {
  SwapLink link;
  std::string source;
  std::string problem;
  std::string warning;
};

FoundLink AsKept(const MeasuredLink& measured) {
  FoundLink found;
  found.link = measured.link;
  found.source = "measured on " + Day(measured.unix_seconds);
  return found;
}

// A measurement in a thread of its own: a disk that does not answer cannot be interrupted.
struct Measurement {
  SwapLink link;
  std::string problem;
  bool done = false;
};

void Measure(const std::function<SwapLink(std::string* problem)>& measure, Measurement* measurement) {
  SwapLink link;
  std::string problem;
  try {
    link = measure(&problem);
  } catch (const std::exception& error) {
    problem = std::string("what the way there carries could not be measured: ") + error.what();
  }
  const std::lock_guard<std::mutex> lock(TheShared().mutex);
  measurement->link = link;
  measurement->problem = problem;
  measurement->done = true;
  TheShared().measuring = false;
  TheShared().changed.notify_all();
}

// Waits for other measurements to end, and then for its own. `known`: is it known by then? Nothing is measured where it
// is. Waits so long in all; *problem says so where that was not enough.
SwapLink MeasureInTurn(const std::string& directory, double most_seconds, const std::function<bool()>& known,
                       std::function<SwapLink(std::string* problem)> measure, std::string* problem) {
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                               std::chrono::duration<double>(most_seconds));
  const auto seconds = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Shared& shared = TheShared();
  const auto measurement = std::make_shared<Measurement>();
  std::unique_lock<std::mutex> lock(shared.mutex);
  bool in_time = shared.changed.wait_until(lock, end, [&shared] { return !shared.measuring; });
  if (in_time) {
    shared.measuring = true;
    lock.unlock();
    bool started = false;
    try {
      if (!known()) {
        std::thread([measure = std::move(measure), measurement] { Measure(measure, measurement.get()); }).detach();
        started = true;
      }
    } catch (const std::exception& error) {
      measurement->problem = std::string("what the way there carries could not be measured: ") + error.what();
    }
    lock.lock();
    if (!started) {
      shared.measuring = false;
      shared.changed.notify_all();
      measurement->done = true;
    }
    in_time = shared.changed.wait_until(lock, end, [&measurement] { return measurement->done; });
  }
  AddWaited(seconds());
  if (in_time) {
    *problem = measurement->problem;
    return measurement->link;
  }
  *problem = directory + ": what the way there carries could not be measured in " + Seconds(most_seconds);
  return {};
}

FoundLink DiskLink(const std::string& directory, const DirectoryFacts& facts, bool anew, const SwapProbes& probes) {
  FoundLink found;
  const std::string place = LinkPlace("", nullptr);
  const LinkKey key{kDisk, facts.file_system};
  const int64_t now = probes.now();
  Known known = Look(place, key, now);
  if (known.measured && !anew) return AsKept(*known.measured);
  const auto known_by_now = [&] {
    if (!anew) known = Look(place, key, now);
    return !anew && known.measured.has_value();
  };
  const int64_t bytes = std::min(kMeasuredBytes, facts.free_bytes / 2);
  const auto measure = [measure_disk = probes.measure_disk, directory, bytes](std::string* problem) {
    return measure_disk(directory, bytes, problem);
  };
  found.link = Plausible(MeasureInTurn(directory, probes.most_seconds, known_by_now, measure, &found.problem));
  if (!anew && known.measured) return AsKept(*known.measured);
  if (!found.problem.empty()) return found;
  if (!found.link.usable()) {
    found.problem = directory + ": what the way there carries could not be measured";
    return found;
  }
  found.source = "measured now" + (known.why.empty() ? "" : ", as " + known.why);
  const std::string unkept = Keep(place, key, {found.link, now});
  if (!unkept.empty()) found.warning = "each program measures how fast it can swap, as that cannot be kept: " + unkept;
  return found;
}

FoundLink HostLink(const std::string& device, const grappler::Cluster* cluster, const SwapProbes& probes) {
  FoundLink found;
  const Known known = Look(LinkPlace(device, cluster), {kHost, ""}, probes.now());
  if (known.measured) return AsKept(*known.measured);
  found.link.out_bytes_per_us = found.link.in_bytes_per_us = kAssumedHostRate;
  found.link.out_share = found.link.in_share = kAssumedShare;
  found.source = "assumed, not measured" + (known.why.empty() ? "" : ": " + known.why);
  return found;
}

bool BothGiven(const Options& options) { return options.swap_out_bandwidth > 0 && options.swap_in_bandwidth > 0; }

// What was given overrides what was measured.
void Override(const Options& options, FoundLink* found) {
  const bool out = options.swap_out_bandwidth > 0;
  const bool in = options.swap_in_bandwidth > 0;
  if (out) found->link.out_bytes_per_us = options.swap_out_bandwidth / 1e6;
  if (in) found->link.in_bytes_per_us = options.swap_in_bandwidth / 1e6;
  if (out && in) {
    found->source = "as given";
  } else if (out || in) {
    found->source = std::string(out ? "out" : "in") + " as given, else " + found->source;
  }
}

// Nothing but what the options say: whether the ways share a lane is not known, so they do.
FoundLink GivenLink() {
  FoundLink found;
  found.link.out_share = found.link.in_share = kAssumedShare;
  return found;
}

// By way of the host's memory to the disk: each transfer takes both ways, one after the other in parts.
SwapLink Through(const SwapLink& host, const SwapLink& disk) {
  SwapLink link = disk;
  link.out_bytes_per_us = std::min(host.out_bytes_per_us, disk.out_bytes_per_us);
  link.in_bytes_per_us = std::min(host.in_bytes_per_us, disk.in_bytes_per_us);
  link.latency_us = host.latency_us + disk.latency_us;
  link.compute_us_per_byte = 0;  // the CPU's work takes nothing from a GPU's ops
  return link;
}

struct Pool {
  int64_t bytes = 0;
  int64_t used = 0;
};

// TensorFlow's pool of pinned memory: its own word where it is there, else the variable it will read.
Pool HostPool(const std::string& device, const grappler::Cluster* cluster) {
  Pool pool{HostPoolBytes(std::getenv("TF_GPU_HOST_MEM_LIMIT_IN_MB")), 0};
  if (cluster == nullptr || cluster->GetDeviceSet() == nullptr) return pool;
  for (tensorflow::Device* candidate : cluster->GetDeviceSet()->devices()) {
    if (candidate->name() != device) continue;
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    const auto stats = candidate->GetAllocator(pinned)->GetStats();
    if (!stats || !stats->bytes_limit || *stats->bytes_limit <= 0) break;
    pool = {*stats->bytes_limit, stats->bytes_in_use};
  }
  return pool;
}

// What may be taken of the host's memory: of a machine that is described, what it has in all; of this one, what is
// left. A plan for another machine is not to hang on what this one does at the moment.
int64_t HostBytes(const grappler::Cluster* cluster, const SwapProbes& probes) {
  if (cluster != nullptr && cluster->GetDeviceSet() == nullptr) {
    for (const auto& [name, properties] : cluster->GetDevices()) {
      if (properties.type() == "CPU" && properties.memory_size() > 0) return properties.memory_size();
    }
  }
  return probes.memory_bytes();
}

// Nothing is swapped: with what was asked for something is wrong.
void Refuse(const std::string& problem, ChosenSwap* chosen) {
  chosen->tier.clear();
  chosen->directory.clear();
  chosen->link = SwapLink();
  chosen->link_text.clear();
  chosen->problem = problem;
}

void Settle(const FoundLink& found, ChosenSwap* chosen) {
  if (!found.warning.empty()) chosen->warnings.push_back(found.warning);
  chosen->limit_bytes = LeastLimit(chosen->limits);
  if (chosen->limit_bytes < kLeastRoom) {
    Refuse("nothing is swapped: " + SwapLimitWarning(kLeastRoom, chosen->limits), chosen);
    return;
  }
  chosen->link = Plausible(found.link);
  chosen->link.capacity_bytes = chosen->limit_bytes;
  chosen->link_text = RatesText(chosen->link) + " (" + found.source + ")";
}

void ChooseHost(const Options& options, const std::string& device, const grappler::Cluster* cluster,
                const SwapProbes& probes, ChosenSwap* chosen) {
  chosen->tier = kHost;
  const Pool pool = HostPool(device, cluster);
  chosen->limits = HostLimits(options.swap_host_limit, pool.bytes, pool.used, HostBytes(cluster, probes));
  FoundLink found = BothGiven(options) ? GivenLink() : HostLink(device, cluster, probes);
  Override(options, &found);
  found.link.queued_above = QueuedAbove();
  Settle(found, chosen);
}

void ChooseDisk(const Options& options, const std::string& device, const grappler::Cluster* cluster,
                const SwapProbes& probes, ChosenSwap* chosen) {
  chosen->tier = kDisk;
  chosen->directory = DirectoryOf(options.swap_to);
  const DirectoryFacts facts = probes.look(chosen->directory);
  if (!facts.problem.empty()) {
    Refuse("nothing is swapped: " + facts.problem + ": set swap_to to a directory on a disk that can be written",
           chosen);
    return;
  }
  if (facts.in_memory) {
    chosen->warnings.push_back(chosen->directory +
                               " is kept in memory (tmpfs): swapping there saves none; set swap_to, or LMS_SPILL_DIR, "
                               "to a directory on a disk");
  }
  chosen->limits = DiskLimits(options.swap_disk_limit, chosen->directory, facts.free_bytes, probes.spilled_bytes());
  FoundLink found = GivenLink();
  if (LeastLimit(chosen->limits) >= kLeastRoom && !BothGiven(options)) {
    found = DiskLink(chosen->directory, facts, /*anew=*/false, probes);
    if (!found.problem.empty()) {
      Refuse("nothing is swapped: " + found.problem, chosen);
      return;
    }
    if (IsGpu(device)) {
      const FoundLink host = HostLink(device, cluster, probes);
      found.link = Through(host.link, found.link);
      found.source += "; from the GPU to the host " + host.source;
    }
  }
  Override(options, &found);
  Settle(found, chosen);
}

}  // namespace

SwapProbes SystemProbes() {
  SwapProbes probes;
  probes.look = LookAtDirectory;
  probes.measure_disk = MeasureDiskLink;
  probes.memory_bytes = [] { return AvailableMemory().bytes; };
  probes.spilled_bytes = SpilledBytes;
  probes.now = [] { return static_cast<int64_t>(std::time(nullptr)); };
  return probes;
}

ChosenSwap ChooseSwap(const Options& options, const std::string& device, const grappler::Cluster* cluster,
                      const SwapProbes& probes) {
  ChosenSwap chosen;
  chosen.rules = options.swap_rules;
  if (!options.swap) {
    chosen.note = "nothing is swapped: swap=False";
  } else if (!IsCpu(device) && !IsGpu(device)) {
    chosen.note = "nothing is swapped: that needs a CPU or a GPU, this step runs on " + device;
  } else if (options.swap_to != kHost) {
    ChooseDisk(options, device, cluster, probes, &chosen);
  } else if (IsGpu(device)) {
    ChooseHost(options, device, cluster, probes, &chosen);
  } else {
    chosen.note = "nothing is swapped: a CPU's memory is the host's; swap_to=\"disk\" (or a directory) swaps to a file";
  }
  return chosen;
}

void NoteSwap(const ChosenSwap& chosen, Report* report) {
  report->swap_tier = chosen.tier;
  report->swap_directory = chosen.directory;
  report->swap_note = chosen.WhyNowhere();
  report->link = chosen.link_text;
  report->warnings.insert(report->warnings.end(), chosen.warnings.begin(), chosen.warnings.end());
  if (!chosen.problem.empty()) report->warnings.push_back(chosen.problem);
}

std::string LinkPlace(const std::string& device, const grappler::Cluster* cluster) {
  tensorflow::DeviceProperties properties;
  if (!IsGpu(device)) {
    properties = grappler::GetLocalCPUInfo();
  } else {
    const auto* devices = cluster == nullptr ? nullptr : &cluster->GetDevices();
    const auto found = devices == nullptr ? decltype(devices->begin())() : devices->find(device);
    tensorflow::DeviceNameUtils::ParsedName parsed;
    if (devices != nullptr && found != devices->end()) {
      properties = found->second;
    } else if (tensorflow::DeviceNameUtils::ParseFullName(device, &parsed)) {
      properties = grappler::GetDeviceInfo(parsed);
    }
    properties.set_type("GPU");
  }
  std::string place = properties.type();
  for (const std::string& part : {properties.vendor(), properties.model()}) {
    if (!part.empty()) place += " " + part;
  }
  return place;
}

bool NeedsHostLink(const std::string& device) {
  return !Look(LinkPlace(device, nullptr), {kHost, ""}, static_cast<int64_t>(std::time(nullptr))).measured;
}

std::string StoreHostLink(const std::string& device, const SwapLink& link) {
  const SwapLink plausible = Plausible(link);
  if (!plausible.usable()) return "a link that carries nothing";
  return Keep(LinkPlace(device, nullptr), {kHost, ""}, {plausible, static_cast<int64_t>(std::time(nullptr))});
}

std::string MeasureDiskAnew(const std::string& swap_to, std::string* text) {
  const std::string directory = DirectoryOf(swap_to);
  const SwapProbes probes = SystemProbes();
  const DirectoryFacts facts = probes.look(directory);
  if (!facts.problem.empty()) return facts.problem;
  const FoundLink found = DiskLink(directory, facts, /*anew=*/true, probes);
  if (!found.problem.empty()) return found.problem;
  *text = directory + ": " + RatesText(found.link);
  return found.warning;
}

}  // namespace lms
