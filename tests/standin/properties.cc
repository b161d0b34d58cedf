#include "tests/standin/properties.h"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "tensorflow/core/grappler/clusters/utils.h"
#include "tests/standin/settings.h"

namespace standin {
namespace {

using ::tensorflow::DeviceProperties;

DeviceProperties Properties(tsl::PlatformDeviceId /*id*/) {
  const Settings& settings = Get();
  DeviceProperties properties;
  properties.set_type("GPU");
  properties.set_vendor("NVIDIA");
  properties.set_model("stand-in");
  properties.set_num_cores(settings.cores);
  properties.set_frequency(static_cast<int64_t>(settings.mhz));
  properties.set_bandwidth(static_cast<int64_t>(settings.memory_gb_per_s * 1e6));  // in KB/s
  properties.set_num_registers(65536);
  properties.set_shared_memory_size_per_multiprocessor(98304);
  (*properties.mutable_environment())["architecture"] = settings.capability;
  return properties;
}

// GetLocalGPUInfo is inlined into this one, so both are replaced.
DeviceProperties PropertiesOfName(const tsl::DeviceNameUtils::ParsedName& name) {
  if (name.type == "CPU") return tensorflow::grappler::GetLocalCPUInfo();
  if (name.type == "GPU") return Properties(tsl::PlatformDeviceId(name.has_id ? name.id : 0));
  DeviceProperties unknown;
  unknown.set_type("UNKNOWN");
  return unknown;
}

void Replace(void* function, const void* by) {
  constexpr uintptr_t kPage = 4096;
  auto* const target = static_cast<char*>(function);
  auto* const page = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(target) & ~(kPage - 1));
  // The page is running code: it has to stay executable while it is written.
  // NOLINTNEXTLINE(clang-analyzer-security.MmapWriteExec)
  if (mprotect(page, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  std::array<unsigned char, 12> jump = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // movabs rax, by; jmp rax
  std::memcpy(jump.data() + 2, &by, sizeof(by));
  std::memcpy(target, jump.data(), jump.size());
  mprotect(page, 2 * kPage, PROT_READ | PROT_EXEC);
}

}  // namespace

void DescribeDevices() {
  DeviceProperties (*const by_name)(const tsl::DeviceNameUtils::ParsedName&) = &tensorflow::grappler::GetDeviceInfo;
  Replace(reinterpret_cast<void*>(&tensorflow::grappler::GetLocalGPUInfo), reinterpret_cast<const void*>(&Properties));
  Replace(reinterpret_cast<void*>(by_name), reinterpret_cast<const void*>(&PropertiesOfName));
}

}  // namespace standin
