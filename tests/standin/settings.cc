#include "tests/standin/settings.h"

#include <cstdlib>

namespace standin {
namespace {

const char* Text(const char* name, const char* fallback) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

double Number(const char* name, double fallback) {
  const char* const value = Text(name, nullptr);
  return value != nullptr ? std::strtod(value, nullptr) : fallback;
}

int64_t Mebibytes(const char* name, double fallback) { return static_cast<int64_t>(Number(name, fallback) * 1048576); }

Settings Read() {
  Settings settings;
  settings.devices = static_cast<int>(Number("STANDIN_DEVICES", 1));
  settings.memory_bytes = Mebibytes("STANDIN_MEMORY_MB", 1024);
  settings.pinned_bytes = Mebibytes("STANDIN_PINNED_MB", 16384);
  settings.out_gb_per_s = Number("STANDIN_OUT_GBPS", 2);
  settings.in_gb_per_s = Number("STANDIN_IN_GBPS", 2);
  settings.latency_us = Number("STANDIN_LATENCY_US", 10);
  settings.jitter_us = Number("STANDIN_JITTER_US", 0);
  settings.run_ahead = Number("STANDIN_RUN_AHEAD", 1) != 0;
  settings.compute = Number("STANDIN_COMPUTE", 1) != 0;
  settings.guard = Number("STANDIN_GUARD", 0) != 0;
  settings.described = Number("STANDIN_DESCRIBED", 1) != 0;
  settings.cores = static_cast<int>(Number("STANDIN_CORES", 80));
  settings.mhz = Number("STANDIN_MHZ", 1500);
  settings.memory_gb_per_s = Number("STANDIN_MEMORY_GBPS", 900);
  settings.capability = Text("STANDIN_CAPABILITY", "7.0");
  settings.kernels = Text("STANDIN_KERNELS", "gpu_kernels.txt");
  settings.trace = Text("STANDIN_TRACE", "");
  settings.verbose = Number("STANDIN_VERBOSE", 0) != 0;
  return settings;
}

}  // namespace

const Settings& Get() {
  static const Settings* const settings = new Settings(Read());
  return *settings;
}

}  // namespace standin
