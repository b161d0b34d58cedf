// Where a step's tensors may be swapped to, what the way there carries, and how much room there is.
//
// Asked only when a step does not fit: a link that nobody has measured yet is measured then, which takes up to a
// second, and kept (link_file.h). A disk that answers late or never is waited for only so long, and not swapped to.
// Measured is what goes to a file; the way from a GPU to the host is measured by an op that Python runs before the
// first step (NeedsHostLink), and until then taken to be slow.
//
// May be called from several threads: one of them measures at a time, and who needs no measurement waits for none.

#ifndef LMS_CC_TF_PASS_SWAP_CHOICE_H_
#define LMS_CC_TF_PASS_SWAP_CHOICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/core/graph/swap_link.h"
#include "cc/core/options/options.h"
#include "cc/core/options/swap_limits.h"
#include "cc/core/profile/link_file.h"
#include "cc/core/report/report.h"
#include "cc/core/system/directory_facts.h"

namespace tensorflow::grappler {
class Cluster;
}  // namespace tensorflow::grappler

namespace lms {

struct ChosenSwap {
  std::string tier;                   // "host", "disk"; "": nothing may be swapped
  std::string directory;              // of the spill file, for "disk"
  std::vector<SwapLimit> limits;      // of what may be stored at a time
  int64_t limit_bytes = 0;            // the least of them, also the link's capacity
  SwapLink link;                      // not usable() where tier is ""
  SwapRules rules;                    // as the options say
  std::string link_text;              // what it carries each way, and how that is known
  std::string note;                   // tier "": why, and what to do about it
  std::string problem;                // tier "": what is wrong with what was asked for
  std::vector<std::string> warnings;  // for the report, where something is swapped

  const std::string& WhyNowhere() const { return problem.empty() ? note : problem; }
};

// What is asked of the system; the tests give their own.
struct SwapProbes {
  std::function<DirectoryFacts(const std::string& directory)> look;
  std::function<SwapLink(const std::string& directory, int64_t bytes, std::string* problem)> measure_disk;
  std::function<int64_t()> memory_bytes;   // that this process may still take
  std::function<int64_t()> spilled_bytes;  // that swapping itself holds on the disk
  std::function<int64_t()> now;            // seconds since 1970
  double most_seconds = 10;                // that a measurement is waited for
};

SwapProbes SystemProbes();

// `device` by its full name, as one of `cluster`, which may be null. Of a cluster without devices of TensorFlow's own,
// as lms.plan describes one, the CPU's memory_size is what its host has for everything. What is waited for a
// measurement counts for deadlines (waited.h).
ChosenSwap ChooseSwap(const Options& options, const std::string& device, const tensorflow::grappler::Cluster* cluster,
                      const SwapProbes& probes = SystemProbes());

// Fills in swap_tier, swap_directory, swap_note and link, and adds the warnings and the problem to the report's.
void NoteSwap(const ChosenSwap& chosen, Report* report);

// The place that a device's links are kept for: its type and model, without its number. Links to a disk belong to the
// machine's CPU, whatever the device.
std::string LinkPlace(const std::string& device, const tensorflow::grappler::Cluster* cluster);

// Is nothing (good) kept on the way from this GPU to the host?
bool NeedsHostLink(const std::string& device);

// Keeps what was measured on it, now. "" or the problem.
std::string StoreHostLink(const std::string& device, const SwapLink& link);

// Measures the way to the directory that swap_to="disk" or a path stands for, whether it is known or not, and keeps the
// figures. "" or the problem; *text: what it carries.
std::string MeasureDiskAnew(const std::string& swap_to, std::string* text);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_SWAP_CHOICE_H_
