// Processors and ops on them, for the tests of what kernels allocate.

#ifndef LMS_TESTS_CC_TF_SIZES_OPS_OF_KERNELS_H_
#define LMS_TESTS_CC_TF_SIZES_OPS_OF_KERNELS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cc/tf/sizes/cpu_kernels.h"
#include "cc/tf/sizes/kernel_workspace.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {

inline constexpr tensorflow::DataType kFloat = tensorflow::DT_FLOAT;
inline constexpr tensorflow::DataType kHalf = tensorflow::DT_HALF;
inline constexpr tensorflow::DataType kBfloat16 = tensorflow::DT_BFLOAT16;
inline constexpr tensorflow::DataType kDouble = tensorflow::DT_DOUBLE;

// Processors, by what TensorFlow and oneDNN have for float, bfloat16 and half, and natively for the last two.
// Zen 4, Zen 5, Cooper Lake: AVX-512 and avx512_bf16. The one on which all figures were measured.
inline CpuKernels Measured(int threads = 2) { return {threads, true, true, false, true, false}; }
// Skylake, Cascade Lake, Ice Lake: AVX-512 alone. Measured with ONEDNN_MAX_CPU_ISA=AVX512_CORE.
inline CpuKernels Avx512(int threads = 2) { return {threads, true, true, false, false, false}; }
// Sapphire Rapids and later: avx512_fp16 as well.
inline CpuKernels Avx512Fp16() { return {2, true, true, true, true, true}; }
// The same with AMX. Measured on such a Xeon.
inline CpuKernels Amx(int threads = 2) { return {threads, true, true, true, true, true, true}; }
// Haswell, Zen 1 to 3: AVX2.
inline CpuKernels Avx2() { return {2, true, false, false, false, false}; }
// Sierra Forest, Lunar Lake: AVX_NE_CONVERT and no AVX-512. Not measured.
inline CpuKernels AvxNeConvert() { return {2, true, true, true, false, false}; }
inline CpuKernels WithoutOneDnn() { return {2, false, false, false, false, false}; }

// An op with tensors of such types and shapes.
class Op {
 public:
  explicit Op(const std::string& type) { node_.set_op(type); }
  const std::string& Type() const { return node_.op(); }

  Op& In(tensorflow::DataType type, const Dims& dims) { return Add(type, dims, &op_.inputs); }
  Op& Out(tensorflow::DataType type, const Dims& dims) { return Add(type, dims, &op_.outputs); }
  Op& Format(const std::string& format) {
    (*node_.mutable_attr())["data_format"].set_s(format);
    return *this;
  }
  Op& True(const char* name) {
    (*node_.mutable_attr())[name].set_b(true);
    return *this;
  }
  Op& Window(const std::vector<int64_t>& sides) {
    for (const int64_t side : sides) (*node_.mutable_attr())["ksize"].mutable_list()->add_i(side);
    return *this;
  }
  Op& Strides(const std::vector<int64_t>& strides) {
    for (const int64_t stride : strides) (*node_.mutable_attr())["strides"].mutable_list()->add_i(stride);
    return *this;
  }
  Op& Axes(const std::vector<int>& axes) {
    tensorflow::Tensor value(tensorflow::DT_INT32, {static_cast<int64_t>(axes.size())});
    for (size_t i = 0; i < axes.size(); ++i) value.flat<int32_t>()(i) = axes[i];
    In(tensorflow::DT_INT32, {static_cast<int64_t>(axes.size())});
    value.AsProtoTensorContent(op_.inputs.back().mutable_value());
    return *this;
  }
  int64_t Workspace(const CpuKernels& kernels = Measured()) {
    EXPECT_TRUE(HasKernelWorkspace(node_.op()));
    op_.node = &node_;
    return KernelWorkspace(op_, kernels);
  }

 private:
  Op& Add(tensorflow::DataType type, const Dims& dims, std::vector<tensorflow::OpInfo::TensorProperties>* tensors) {
    tensors->emplace_back();
    tensors->back().set_dtype(type);
    *tensors->back().mutable_shape() = Shape("", dims).second.shape();
    return *this;
  }

  tensorflow::NodeDef node_;
  SizedOp op_;
};

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_SIZES_OPS_OF_KERNELS_H_
