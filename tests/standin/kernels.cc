// The kernels of the stand-in: for each of TensorFlow's CUDA build that the CPU build lacks the CPU's, with the types
// and the memory of inputs and outputs that the CUDA build has. gpu_kernels.txt is the table, made by kernel_table.py.
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tests/standin/arena.h"
#include "tests/standin/device_kernel.h"
#include "tests/standin/grappler_swap.h"
#include "tests/standin/images.h"
#include "tests/standin/properties.h"
#include "tests/standin/settings.h"

namespace standin {
namespace {

using ::tensorflow::KernelDef;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::unique_ptr<OpKernel> MakeCpuKernel(OpKernelConstruction* construction) {
  if (OpKernel* const kernel = MakeImageKernel(construction)) return std::unique_ptr<OpKernel>(kernel);
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  absl::Status status =
      tensorflow::NodeProperties::CreateFromNodeDef(construction->def(), tensorflow::OpRegistry::Global(), &properties);
  OpKernel* kernel = nullptr;
  if (status.ok()) {
    auto* const device = static_cast<tensorflow::DeviceBase*>(construction->device());
    status = CreateOpKernel(tensorflow::DeviceType(tensorflow::DEVICE_CPU), device,
                            device->GetAllocator(tensorflow::AllocatorAttributes()), construction->function_library(),
                            construction->resource_manager(), properties, construction->graph_def_version(), &kernel);
  }
  if (!status.ok()) construction->CtxFailure(status);
  return std::unique_ptr<OpKernel>(kernel);
}

class Factory : public tensorflow::kernel_factory::OpKernelFactory {
 public:
  OpKernel* Create(OpKernelConstruction* construction) override {
    NoteAllocator(construction->device()->attributes().name(),
                  construction->device()->GetAllocator(tensorflow::AllocatorAttributes()));
    std::unique_ptr<OpKernel> first = MakeCpuKernel(construction);
    if (first == nullptr) return nullptr;
    if (first->AsAsync() != nullptr) {
      // As it is, but its tensors lie where the CUDA build has them.
      const_cast<tensorflow::MemoryTypeVector&>(first->input_memory_types())
          .assign(construction->input_memory_types().begin(), construction->input_memory_types().end());
      const_cast<tensorflow::MemoryTypeVector&>(first->output_memory_types())
          .assign(construction->output_memory_types().begin(), construction->output_memory_types().end());
      return first.release();
    }
    return new DeviceKernel(construction, [&first](OpKernelConstruction* again) {
      return first != nullptr ? std::move(first) : MakeCpuKernel(again);
    });
  }
};

std::string ConstraintsOf(const KernelDef& kernel) {
  std::set<std::string> parts;
  for (const auto& constraint : kernel.constraint()) {
    const auto& list = constraint.allowed_values().list().type();
    std::string part = constraint.name() + "=";
    for (const int type : std::set<int>(list.begin(), list.end())) {
      part += (part.back() == '=' ? "" : ",") + std::to_string(type);
    }
    parts.insert(part);
  }
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ";") + part;
  return all;
}

std::string KeyOf(const KernelDef& kernel) {
  return kernel.op() + "|" + kernel.device_type() + "|" + kernel.label() + "|" + ConstraintsOf(kernel);
}

// A line is op|device|label|priority|host memory|constraints, the last once for each kernel, with blanks between.
std::vector<KernelDef> Parse(const std::string& line) {
  std::vector<KernelDef> kernels;
  std::vector<std::string> fields = Split(line, '|');
  if (fields.size() < 5) return kernels;
  std::vector<std::string> variants = fields.size() > 5 ? Split(fields[5], ' ') : std::vector<std::string>{};
  if (variants.empty()) variants.push_back("");
  for (const std::string& variant : variants) {
    KernelDef kernel;
    kernel.set_op(fields[0]);
    kernel.set_device_type(fields[1]);
    kernel.set_label(fields[2]);
    kernel.set_priority(std::stoi(fields[3]));
    for (const std::string& name : Split(fields[4], ',')) kernel.add_host_memory_arg(name);
    for (const std::string& part : Split(variant, ';')) {
      const size_t equals = part.find('=');
      auto* const constraint = kernel.add_constraint();
      constraint->set_name(part.substr(0, equals));
      for (const std::string& type : Split(part.substr(equals + 1), ',')) {
        constraint->mutable_allowed_values()->mutable_list()->add_type(
            static_cast<tensorflow::DataType>(std::stoi(type)));
      }
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void RegisterKernels() {
  std::set<std::string> there;
  std::set<std::string> cpu;
  const tensorflow::KernelList registered = tensorflow::GetAllRegisteredKernels();
  for (const KernelDef& kernel : registered.kernel()) {
    if (kernel.device_type() == "CPU") {
      cpu.insert(kernel.op());
    } else {
      there.insert(KeyOf(kernel));
    }
  }
  int added = 0;
  std::set<std::string> lacking;
  std::ifstream file(Get().kernels);
  for (std::string line; std::getline(file, line);) {
    for (const KernelDef& kernel : Parse(line)) {
      if (there.count(KeyOf(kernel)) > 0) continue;
      if (cpu.count(kernel.op()) == 0 || tensorflow::OpRegistry::Global()->LookUp(kernel.op()) == nullptr) {
        lacking.insert(kernel.op());
        continue;
      }
      tensorflow::kernel_factory::OpKernelRegistrar(new KernelDef(kernel), "StandInKernel",
                                                    std::make_unique<Factory>());
      ++added;
    }
  }
  if (added == 0) std::fprintf(stderr, "standin: no kernels in %s\n", Get().kernels.c_str());
  if (!Get().verbose) return;
  std::fprintf(stderr, "standin: %d kernels; without one on the CPU:", added);
  for (const std::string& op : lacking) std::fprintf(stderr, " %s", op.c_str());
  std::fprintf(stderr, "\n");
}

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) void TF_InitKernel() {
  standin::RegisterGrapplerSwap();
  if (standin::Get().described) standin::DescribeDevices();
  standin::RegisterKernels();
}
