// Tests on a loop and its gradient, with all that is known about its nodes.

#ifndef LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_TEST_H_
#define LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "cc/tf/graph/graph_check.h"
#include "cc/tf/graph/node_types.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/function.h"
#include "tests/cc/tf/loops/gradient_loop_builder.h"

namespace lms::testing {

class GradientLoopTest : public ::testing::Test {
 protected:
  // Of the graph as it has been built: index_, sizes_ and types_.
  void ReadGraph() {
    EXPECT_TRUE(CheckGraph(b_.item().graph).ok()) << CheckGraph(b_.item().graph);
    index_ = GraphIndex();
    EXPECT_TRUE(index_.Build(b_.item()).ok());
    sizes_ = std::make_unique<TensorSizes>(b_.item(), 32);
    EXPECT_TRUE(sizes_->Infer().ok());
    sizes_->EstimateCosts(nullptr);
    const tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), b_.item().graph.library());
    types_.clear();
    EXPECT_TRUE(ReadNodeTypes(b_.item().graph, index_, library, &types_).ok());
  }

  // What the check says of that graph in the place of the one that was read.
  using CheckFunction = absl::Status (*)(const tensorflow::GraphDef&, const GraphIndex&, const tensorflow::GraphDef&,
                                         const GraphIndex&, const Deadline&);
  absl::Status CheckBy(CheckFunction check, const tensorflow::GraphDef& graph) {
    GraphIndex changed;
    const absl::Status status = changed.Build(b_.item().WithGraph(tensorflow::GraphDef(graph)));
    return status.ok() ? check(b_.item().graph, index_, graph, changed, Deadline()) : status;
  }

  GradientLoopBuilder b_;
  GraphIndex index_;
  std::unique_ptr<TensorSizes> sizes_;
  std::vector<NodeTypes> types_;
};

// Makes another computation of the graph.
struct Fault {
  const char* name;
  std::function<void(tensorflow::GraphDef*)> make;
};

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_LOOPS_GRADIENT_LOOP_TEST_H_
