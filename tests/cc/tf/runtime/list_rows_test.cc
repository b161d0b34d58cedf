#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cc/tf/graph/own_ops.h"
#include "cc/tf/runtime/list_rows_op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/kernels/tensor_list.h"
#include "tensorflow/core/public/session.h"
#include "tensorflow/core/public/version.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::Tensor;
using testing::GraphBuilder;

constexpr int64_t kElements = 7;

// A list, made with the label, of what "x" is fed with; the graph's "stack" has its elements in one tensor.
class ListRowsTest : public ::testing::Test {
 protected:
  void Make(const std::string& label, const std::vector<int>& element_shape) {
    GraphBuilder b;
    const testing::Attr element = testing::Type("element_dtype", tensorflow::DT_FLOAT);
    const testing::Attr shape = testing::Type("shape_type", tensorflow::DT_INT32);
    b.Add("x", "Placeholder", {}, {testing::Float32("dtype")});
    b.ShapeConstant("shape", element_shape);
    b.Add("list", "TensorListFromTensor", {"x", "shape"}, {element, shape, testing::Text(kKernelAttr, label)});
    b.Add("stack", "TensorListStack", {"list", "shape"}, {element});
    tensorflow::GraphDef graph = b.item().graph;
    graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
    tensorflow::SessionOptions options;
    options.config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(true);
    session_.reset(tensorflow::NewSession(options));
    const absl::Status status = session_->Create(graph);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  absl::Status Run(const Tensor& x, std::vector<Tensor>* outputs) {
    return session_->Run({{"x", x}}, {"list", "stack"}, {}, outputs);
  }

  static Tensor Counted(int64_t width, int64_t rows = kElements) {
    Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({rows, width}));
    for (int64_t i = 0; i < tensor.NumElements(); ++i) tensor.flat<float>()(i) = static_cast<float>(i);
    return tensor;
  }

  static const std::vector<Tensor>& Elements(const Tensor& list) {
    return list.scalar<tensorflow::Variant>()().get<tensorflow::TensorList>()->tensors();
  }

  std::unique_ptr<tensorflow::Session> session_;
};

TEST_F(ListRowsTest, RowsLieWhereTheTensorHasThem) {
  Make(kRowsLabel, {-1});
  const Tensor x = Counted(16);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(Run(x, &outputs).ok());
  ASSERT_EQ(Elements(outputs[0]).size(), kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(Elements(outputs[0])[i].data(), x.Slice(i, i + 1).data());
    EXPECT_EQ(Elements(outputs[0])[i].shape(), tensorflow::TensorShape({16}));
  }
  EXPECT_EQ(outputs[1].tensor_data(), x.tensor_data());
}

TEST_F(ListRowsTest, TheLastRowIsTheFirstOfAReversedList) {
  Make(kReversedRowsLabel, {16});
  const Tensor x = Counted(16);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(Run(x, &outputs).ok());
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(Elements(outputs[0])[i].data(), x.Slice(kElements - 1 - i, kElements - i).data());
  }
}

// Its kernels would end the process where they are handed such a row.
TEST_F(ListRowsTest, RowsAtOtherAddressesAreCopied) {
  Make(kRowsLabel, {5});
  const Tensor x = Counted(5);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(Run(x, &outputs).ok());
  EXPECT_EQ(Elements(outputs[0])[0].data(), x.data());
  EXPECT_NE(Elements(outputs[0])[1].data(), x.Slice(1, 2).data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(Elements(outputs[0])[1].data()) % kRowAlignment, 0U);
  EXPECT_EQ(outputs[1].tensor_data(), x.tensor_data());
}

TEST_F(ListRowsTest, ATensorWithoutRowsMakesAnEmptyList) {
  Make(kRowsLabel, {16});
  std::vector<Tensor> outputs;
  ASSERT_TRUE(Run(Counted(16, 0), &outputs).ok());
  EXPECT_TRUE(Elements(outputs[0]).empty());
}

TEST_F(ListRowsTest, WhatTensorFlowRefusesIsRefused) {
  Make(kRowsLabel, {4});
  std::vector<Tensor> outputs;
  EXPECT_EQ(Run(Counted(16), &outputs).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(Tensor(1.0F), &outputs).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lms
