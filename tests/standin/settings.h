// What a program sets of the stand-in, by variables of the environment, read once when the library is loaded.

#ifndef LMS_TESTS_STANDIN_SETTINGS_H_
#define LMS_TESTS_STANDIN_SETTINGS_H_

#include <cstdint>
#include <string>

namespace standin {

struct Settings {
  int devices;           // STANDIN_DEVICES, 1
  int64_t memory_bytes;  // STANDIN_MEMORY_MB of each device's arena, 1024
  int64_t pinned_bytes;  // STANDIN_PINNED_MB of pinned host memory at most, 16384
  double out_gb_per_s;   // STANDIN_OUT_GBPS from a device to the host, 2
  double in_gb_per_s;    // STANDIN_IN_GBPS from the host to a device, 2
  double latency_us;     // STANDIN_LATENCY_US of each copy over the link, 10
  double jitter_us;      // STANDIN_JITTER_US, 0: at most so much later begins what a stream does, and kernels that
                         // wait for one; at random
  bool run_ahead;        // STANDIN_RUN_AHEAD, 1: kernels run on the device's compute stream, Compute returns before
  bool compute;    // STANDIN_COMPUTE, 1; 0: kernels take memory and compute nothing, and large copies are not made
  bool guard;      // STANDIN_GUARD, 0: whoever touches a device's memory from the host's side is killed
  bool described;  // STANDIN_DESCRIBED, 1: Grappler is told what device it is (the figures below)
  int cores;       // STANDIN_CORES, 80
  double mhz;      // STANDIN_MHZ, 1500
  double memory_gb_per_s;  // STANDIN_MEMORY_GBPS, 900
  std::string capability;  // STANDIN_CAPABILITY, "7.0"
  std::string kernels;     // STANDIN_KERNELS: the path of gpu_kernels.txt
  std::string trace;       // STANDIN_TRACE: a file that says what streams did and when; none
  bool verbose;            // STANDIN_VERBOSE, 0
};

const Settings& Get();

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_SETTINGS_H_
