#include "cc/tf/stock/layout_fusions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/core/graph/node_names.h"
#include "cc/tf/rewrite/rewrite.h"
#include "cc/tf/verify/verify.h"
#include "tensorflow/core/util/util.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::HasInput;
using testing::Imported;

std::vector<testing::Attr> Convolution(const std::string& padding = "VALID") {
  testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  return {strides, testing::Text("padding", padding)};
}

// y = relu(pad(x)) convolved; gradients of the filter, if wanted, and of the bias.
GraphBuilder Step(const std::string& filter_waits_for = "", bool with_filter = true) {
  GraphBuilder b;
  b.Parse(
      "x[2, 6, 6, 4]; dy[2, 6, 6, 4]; w[3, 3, 4, 4]; sizes{3, 3, 4, 4}; pads_flat{0, 0, 1, 1, 1, 1, 0, 0}; two{4, 2}");
  b.Add("pads", "Reshape", {"pads_flat", "two"}, {testing::Type("T", tensorflow::DT_INT32)});
  b.Parse("relu = Relu(x); pad = Pad(relu, pads)");
  b.Float("y", "Conv2D", {"pad", "w"}, Convolution());
  b.Parse("late = Neg(y); grad = ReluGrad(dy, late); bias = BiasAddGrad(grad)");
  if (with_filter) {
    std::vector<std::string> inputs = {"pad", "sizes", "grad"};
    if (!filter_waits_for.empty()) inputs.push_back("^" + filter_waits_for);
    b.Float("filter", "Conv2DBackpropFilter", inputs, Convolution());
    b.Fetch("filter");
  }
  for (const char* result : {"late", "bias"}) b.Fetch(result);
  return b;
}

struct Kept {
  Kept(const Imported& step, bool onednn) : graph(step.item().graph), fusions(graph, onednn) {}
  tensorflow::NodeDef* Node(const std::string& name) {
    for (tensorflow::NodeDef& node : *graph.mutable_node()) {
      if (node.name() == name) return &node;
    }
    return nullptr;
  }
  bool Has(const std::string& node, const std::string& input) const { return HasInput(graph, node, input); }

  tensorflow::GraphDef graph;
  Fusions fusions;
};

TEST(LayoutFusions, AGradientOfABiasGoesIntoTheFilterThatWaitsForTheSame) {
  for (const bool waits : {false, true}) {
    const Imported step(Step(waits ? "late" : "").item());
    const int bias = step.index().Find("bias");
    const std::vector<int> into = FusedInto(step.item().graph, step.index(), true);
    EXPECT_EQ(into[bias], waits ? bias : step.index().Find("filter"));
    EXPECT_EQ(FusedInto(step.item().graph, step.index(), false)[bias], bias);
    EXPECT_EQ(OtherFusions(step.item().graph, step.index(), true).size(), waits ? 1U : 0U);
    EXPECT_TRUE(MayBeFused(step.item().graph, step.index(), true)[bias]);
  }
}

TEST(LayoutFusions, NothingOfAGpuIsJoined) {
  tensorflow::grappler::GrapplerItem item = Step().item();
  for (auto& node : *item.graph.mutable_node()) node.set_device("/job:localhost/replica:0/task:0/device:GPU:0");
  const Imported step(item);
  const tensorflow::GraphDef& graph = step.item().graph;
  const int bias = step.index().Find("bias");
  EXPECT_EQ(FusedInto(graph, step.index(), true)[bias], bias);
  EXPECT_TRUE(OtherFusions(graph, step.index(), true).empty());
  for (const char* node : {"bias", "pad"}) {
    EXPECT_FALSE(MayBeFused(graph, step.index(), true)[step.index().Find(node)]) << node;
  }
  Kept kept(step, true);
  kept.Node("filter")->add_input("^late");
  kept.fusions.Keep(&kept.graph);
  EXPECT_FALSE(kept.Has("bias", "^late"));
}

TEST(LayoutFusions, BothWaitForWhatTheFilterIsMadeToWaitFor) {
  const Imported step(Step().item());
  Kept kept(step, true);
  kept.Node("filter")->add_input("^late");
  kept.fusions.Keep(&kept.graph);
  EXPECT_TRUE(kept.Has("bias", "^late"));
  EXPECT_EQ(kept.Node("bias")->input_size(), 2);
  EXPECT_EQ(kept.Node("filter")->input_size(), 4);
}

TEST(LayoutFusions, BothReadTheSameRecomputation) {
  const Imported step(Step().item());
  Kept kept(step, true);
  tensorflow::NodeDef copy = *kept.Node("grad");
  copy.set_name(RecomputeName(0, "grad"));
  *kept.graph.add_node() = copy;
  kept.Node("filter")->set_input(2, copy.name());
  kept.fusions.Keep(&kept.graph);
  EXPECT_EQ(kept.Node("bias")->input(0), copy.name());
}

TEST(LayoutFusions, APairThatWasApartStaysApart) {
  const Imported step(Step("late").item());
  Kept kept(step, true);
  kept.fusions.Keep(&kept.graph);
  EXPECT_EQ(kept.Node("bias")->input_size(), 1);
}

TEST(LayoutFusions, APaddingThatHasLostAReaderStaysApart) {
  const Imported step(Step().item());
  for (const bool onednn : {true, false}) {
    Kept kept(step, onednn);
    tensorflow::NodeDef copy = *kept.Node("pad");
    copy.set_name(RecomputeName(0, "pad"));
    *kept.graph.add_node() = copy;
    kept.Node("filter")->set_input(0, copy.name());
    kept.fusions.Keep(&kept.graph);
    EXPECT_EQ(kept.Has("y", "^relu"), onednn);
  }
}

TEST(LayoutFusions, APaddingOfItsConvolutionAloneStaysWithIt) {
  const Imported step(Step("", false).item());
  Kept kept(step, true);
  kept.Node("y")->add_input("^w");
  tensorflow::NodeDef pad = *kept.Node("pad"), y = *kept.Node("y");
  pad.set_name(RecomputeName(0, "pad"));
  y.set_name(RecomputeName(1, "y"));
  y.set_input(0, pad.name());
  y.add_input("^grad");
  *kept.graph.add_node() = pad;
  *kept.graph.add_node() = y;
  kept.fusions.Keep(&kept.graph);
  EXPECT_TRUE(kept.Has("pad", "^w"));
  EXPECT_FALSE(kept.Has("y", "^relu"));
  EXPECT_TRUE(kept.Has(pad.name(), "^grad"));
}

TEST(LayoutFusions, ARewriteThatWouldPartTwoIsRefused) {
  if (!tensorflow::IsMKLEnabled()) GTEST_SKIP() << "without oneDNN nothing is joined";
  const Imported step(Step().item());
  for (const bool parted : {false, true}) {
    tensorflow::grappler::GrapplerItem item = step.item();
    for (tensorflow::NodeDef& node : *item.graph.mutable_node()) {
      if (node.name() == "filter" || (!parted && node.name() == "bias")) node.add_input("^late");
    }
    MemoryProfile profile;
    const absl::Status status = VerifyRewrite(step.item(), step.index(), item, step.sizes(), 1, SwapLink(), &profile);
    EXPECT_EQ(status.ok(), !parted) << status.message();
    if (parted) {
      EXPECT_NE(status.message().find("no longer be computed by filter"), std::string::npos);
    }
  }
}

// A pooling and its gradient, which reads its result by way of `through`, if that is the name of a node.
GraphBuilder Pooling(const std::string& through = "") {
  GraphBuilder b;
  b.Parse("x[2, 8, 8, 4]; dy[2, 4, 4, 4]");
  testing::Attr window{"ksize", {}}, strides{"strides", {}};
  for (const int side : {1, 2, 2, 1}) {
    window.second.mutable_list()->add_i(side);
    strides.second.mutable_list()->add_i(side);
  }
  const std::vector<testing::Attr> how = {window, strides, testing::Text("padding", "SAME")};
  b.Float("made", "Tanh", {"x"});
  b.Float("pool", "MaxPool", {"made"}, how);
  b.Parse("late = Neg(pool); same = Identity(pool); scaled = Mul(dy, late)");
  b.Float("gradient", "MaxPoolGrad", {"made", through.empty() ? "pool" : through, "scaled"}, how);
  b.Float("shown", "Exp", {"same"});
  for (const char* result : {"shown", "gradient"}) b.Fetch(result);
  return b;
}

TEST(LayoutFusions, APoolingHandsItsNotesToWhatReadsItself) {
  const Imported direct(Pooling().item()), indirect(Pooling("same").item());
  const auto found = [](const Imported& step, bool onednn) {
    return HandedNotesBy(step.item().graph, step.index(), step.index().Find("gradient"), onednn);
  };
  EXPECT_EQ(found(direct, true), tensorflow::IsMKLEnabled() ? direct.index().Find("pool") : -1);
  EXPECT_EQ(found(direct, false), -1);
  EXPECT_EQ(found(indirect, true), -1);
  EXPECT_EQ(HandedNotesBy(direct.item().graph, direct.index(), direct.index().Find("pool"), true), -1);
}

TEST(LayoutFusions, NotesAreHeldWithTheResultAndNotBroughtBack) {
  const Imported direct(Pooling().item()), indirect(Pooling("same").item());
  const bool onednn = tensorflow::IsMKLEnabled();
  const int64_t elements = 2 * 4 * 4 * 4;
  EXPECT_EQ(direct.Buffer("pool").bytes, elements * (onednn ? 5 : 4));
  EXPECT_EQ(direct.Buffer("pool").swappable, !onednn);
  EXPECT_EQ(direct.Op("gradient").workspace_bytes, onednn ? 0 : elements * 12);
  EXPECT_EQ(direct.Op("pool").workspace_bytes, 0);
  EXPECT_EQ(indirect.Buffer("pool").bytes, elements * 4);
  EXPECT_EQ(indirect.Op("gradient").workspace_bytes, elements * 12);
  EXPECT_EQ(indirect.Op("pool").workspace_bytes, onednn ? elements : 0);
}

TEST(LayoutFusions, ARewriteThatWouldHandOtherNotesIsRefused) {
  if (!tensorflow::IsMKLEnabled()) GTEST_SKIP() << "without oneDNN nothing is handed";
  for (const bool before : {false, true}) {
    const Imported step(Pooling(before ? "" : "same").item());
    tensorflow::grappler::GrapplerItem item = step.item();
    for (tensorflow::NodeDef& node : *item.graph.mutable_node()) {
      if (node.name() == "gradient") node.set_input(1, before ? "same" : "pool");
    }
    MemoryProfile profile;
    const absl::Status status = VerifyRewrite(step.item(), step.index(), item, step.sizes(), 1, SwapLink(), &profile);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(before ? "no longer be handed" : "would be handed"), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace lms
