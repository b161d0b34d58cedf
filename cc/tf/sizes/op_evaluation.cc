#define EIGEN_USE_THREADS

#include "cc/tf/sizes/op_evaluation.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "cc/tf/graph/function_calls.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/optimizers/evaluation_utils.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace lms {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeVector;
using tensorflow::NodeDef;
using tensorflow::Tensor;

bool AllPlain(const DataTypeVector& types) {
  return std::all_of(types.begin(), types.end(), [](DataType type) { return OpEvaluator::IsPlain(type); });
}

}  // namespace

// One thread of its own: tensors of a few elements are worked on by the thread that asks.
class OpEvaluator::Device : public tensorflow::DeviceBase {
 public:
  Device()
      : tensorflow::DeviceBase(tensorflow::Env::Default()),
        pool_(tensorflow::Env::Default(), "lms_evaluation", 1),
        eigen_(pool_.AsEigenThreadPool(), 1) {
    workers_.num_threads = 1;
    workers_.workers = &pool_;
    set_tensorflow_cpu_worker_threads(&workers_);
    set_eigen_cpu_device(&eigen_);
  }

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override { return tensorflow::cpu_allocator(); }

  tensorflow::ResourceMgr* resources() { return &resources_; }

 private:
  tensorflow::thread::ThreadPool pool_;
  Eigen::ThreadPoolDevice eigen_;
  CpuWorkerThreads workers_;
  tensorflow::ResourceMgr resources_;
};

OpEvaluator::OpEvaluator() = default;
OpEvaluator::~OpEvaluator() = default;

bool OpEvaluator::IsPlain(DataType type) {
  return type == tensorflow::DT_BOOL || tensorflow::DataTypeIsInteger(type) || tensorflow::DataTypeIsFloating(type);
}

bool OpEvaluator::MayRun(const NodeDef& node, const tensorflow::OpDef& op) {
  static const auto* const refused = new std::unordered_set<std::string>{"PyFuncStateless"};
  if (op.is_stateful() || op.input_arg_size() == 0 || op.output_arg_size() == 0) return false;
  if (refused->count(node.op()) != 0 || NamesFunction(node)) return false;
  DataTypeVector inputs;
  DataTypeVector outputs;
  return tensorflow::InOutTypesForNode(node, op, &inputs, &outputs).ok() && !inputs.empty() && AllPlain(inputs) &&
         AllPlain(outputs);
}

bool OpEvaluator::NeverLarger(const NodeDef& node) {
  static const auto* const ops = new std::unordered_set<std::string>{
      "BroadcastGradientArgs", "DynamicPartition",   "ListDiff", "Unique", "UniqueV2",
      "UniqueWithCounts",      "UniqueWithCountsV2", "Where"};
  return ops->count(node.op()) != 0;
}

bool OpEvaluator::Run(const NodeDef& node, const tensorflow::OpDef& op, const std::vector<const Tensor*>& inputs,
                      std::vector<Tensor>* outputs) {
  if (runs_ >= kMostRuns || !MayRun(node, op)) return false;
  DataTypeVector input_types;
  DataTypeVector output_types;
  if (!tensorflow::InOutTypesForNode(node, op, &input_types, &output_types).ok()) return false;
  if (input_types.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Kernels end the process over a tensor of another type.
    if (inputs[i]->dtype() != input_types[i] || inputs[i]->NumElements() > kMostElements) return false;
  }
  ++runs_;
  if (device_ == nullptr) device_ = std::make_unique<Device>();
  std::vector<Tensor> copies;  // share the storage, so that no kernel takes it over
  copies.reserve(inputs.size());
  absl::InlinedVector<tensorflow::TensorValue, 4> values;
  for (const Tensor* input : inputs) values.emplace_back(&copies.emplace_back(*input));
  absl::InlinedVector<tensorflow::TensorValue, 4> made;
  bool done = tensorflow::grappler::EvaluateNode(node, values, device_.get(), device_->resources(), &made).ok() &&
              made.size() == output_types.size();
  outputs->clear();
  for (size_t i = 0; i < made.size(); ++i) {
    const std::unique_ptr<Tensor> tensor(made[i].tensor);
    done = done && tensor != nullptr && tensor->dtype() == output_types[i] && tensor->NumElements() <= kMostElements;
    if (done) outputs->push_back(*tensor);
  }
  return done;
}

}  // namespace lms
