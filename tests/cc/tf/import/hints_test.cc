#include "cc/tf/import/hints.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::Imported;
using testing::TrainChain;
using Item = tensorflow::grappler::GrapplerItem;

void Mark(Item* item, const std::string& name, const std::string& frames) {
  for (auto& node : *item->graph.mutable_node()) {
    if (node.name() == name) (*node.mutable_attr())[kHintAttr].set_s(frames);
  }
}

// The hints of a step, given to its graph.
class HintsOf {
 public:
  explicit HintsOf(const Item& item, const std::string& named = "", bool recompute = true, bool swap = false)
      : step_(item), marks_(step_.item().graph, named), imported_(step_.imported()) {
    hints_.Give(marks_, step_.item().graph, recompute, swap, "nowhere", &imported_);
  }
  Hint Of(const std::string& node) const { return Buffer(node).hint; }
  const MemBuffer& Buffer(const std::string& node) const { return imported_.graph.buffers[step_.BufferIdOf(node)]; }
  const HintMarks& marks() const { return marks_; }
  const Hints& hints() const { return hints_; }
  MemGraph* graph() { return &imported_.graph; }
  const MemGraph& before() const { return step_.graph(); }
  std::string Warnings() const {
    std::string text;
    for (const std::string& warning : hints_.warnings()) text += warning + "\n";
    return text;
  }

 private:
  Imported step_;
  HintMarks marks_;
  ImportedGraph imported_;
  Hints hints_;
};

TEST(Hints, WithoutAnyNothingChanges) {
  const HintsOf hinted(TrainChain(4));
  EXPECT_FALSE(hinted.marks().any());
  EXPECT_TRUE(hinted.hints().empty());
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kNone);
}

TEST(Hints, OfTensors) {
  Item item = TrainChain(4);
  Mark(&item, "tanh_0", "tensor|keep||0|a.py:1");
  Mark(&item, "tanh_1", "tensor|recompute||0|a.py:2");
  Mark(&item, "tanh_2", "tensor|recompute||0|a.py:2");
  HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("tanh_0"), Hint::kKeep);
  EXPECT_FALSE(hinted.Buffer("tanh_0").evictable);
  EXPECT_FALSE(hinted.Buffer("tanh_0").swappable);
  EXPECT_EQ(hinted.Buffer("tanh_0").keep_reason, "hint: keep");
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kRecompute);
  EXPECT_TRUE(hinted.Buffer("tanh_1").evictable);
  EXPECT_FALSE(hinted.Buffer("tanh_1").swappable);
  EXPECT_TRUE(hinted.Buffer("tanh_1").hint_named);
  EXPECT_EQ(hinted.Of("matmul_1"), Hint::kNone);
  ASSERT_EQ(hinted.hints().groups().size(), 2u);  // by kind and place
  // Taken back, the buffers are what they were.
  hinted.hints().Lift(-1, hinted.graph());
  for (size_t b = 0; b < hinted.before().buffers.size(); ++b) {
    EXPECT_EQ(hinted.graph()->buffers[b].hint, Hint::kNone);
    EXPECT_EQ(hinted.graph()->buffers[b].evictable, hinted.before().buffers[b].evictable);
    EXPECT_EQ(hinted.graph()->buffers[b].swappable, hinted.before().buffers[b].swappable);
    EXPECT_EQ(hinted.graph()->buffers[b].keep_reason, hinted.before().buffers[b].keep_reason);
  }
}

TEST(Hints, OneGroupAloneIsLifted) {
  Item item = TrainChain(4);
  Mark(&item, "tanh_0", "tensor|keep||0|a.py:1");
  Mark(&item, "tanh_1", "tensor|recompute||0|a.py:2");
  HintsOf hinted(item);
  ASSERT_EQ(hinted.hints().groups().size(), 2u);
  const int keep = hinted.hints().groups()[0].hint == Hint::kKeep ? 0 : 1;
  hinted.hints().Lift(keep, hinted.graph());
  EXPECT_TRUE(hinted.Buffer("tanh_0").evictable);
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kRecompute);
}

TEST(Hints, TheResultsOfARegionStay) {
  Item item = TrainChain(4);
  for (const char* name : {"matmul_1", "tanh_1", "matmul_2", "tanh_2"})
    Mark(&item, name, "region|recompute|f.1||a.py:3");
  const HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kRecompute);
  EXPECT_FALSE(hinted.Buffer("tanh_1").hint_named);
  EXPECT_EQ(hinted.Of("tanh_2"), Hint::kNone);  // read by matmul_3, which is not in the region
  EXPECT_EQ(hinted.Of("tanh_0"), Hint::kNone);
}

TEST(Hints, TheInnermostFrameCounts) {
  Item item = TrainChain(7);
  const std::string outer = "region|recompute|f.1||a.py:3";
  for (const char* name : {"matmul_0", "tanh_0", "matmul_1", "matmul_2", "tanh_2", "matmul_3"})
    Mark(&item, name, outer);
  Mark(&item, "tanh_1", outer + ";region|keep|f.2||a.py:4");
  const HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("tanh_0"), Hint::kRecompute);
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kKeep);
  EXPECT_EQ(hinted.Of("tanh_2"), Hint::kRecompute);
  EXPECT_EQ(hinted.Of("matmul_1"), Hint::kRecompute);
}

TEST(Hints, TypesOfOpsAreKeptInARegion) {
  Item item = TrainChain(4);
  for (const char* name : {"matmul_1", "tanh_1", "matmul_2", "tanh_2"}) {
    Mark(&item, name, "region|recompute|f.1|Conv2D,MatMul|a.py:3");
  }
  const HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("matmul_1"), Hint::kKeep);
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kRecompute);
}

TEST(Hints, AllButTheCheckpoints) {
  Item item = TrainChain(6);
  Mark(&item, "tanh_2", "checkpoint|keep||0|a.py:5");
  const HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("tanh_2"), Hint::kKeep);
  for (const char* name : {"tanh_0", "tanh_1", "tanh_3", "matmul_4"})
    EXPECT_EQ(hinted.Of(name), Hint::kRecompute) << name;
  EXPECT_EQ(hinted.Of("tanh_grad_3"), Hint::kNone);
}

TEST(Hints, NodesThatLostTheirsAreKnownByName) {
  const HintsOf hinted(TrainChain(4),
                       "node\ttanh_1\ttensor|recompute||0|a.py:2\nnode\tgone\ttensor|keep||0|a.py:9\nnonsense\n\t\t");
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kRecompute);
  EXPECT_EQ(hinted.hints().groups().size(), 1u);
}

// Names of Keras layers: all of them numbered, or none.
TEST(Hints, LayersByNameScope) {
  testing::GraphBuilder b;
  b.Feed("x", {256, 64});
  std::string y = "x";
  for (const char* name :
       {"net_1/block_1/in_1/Tanh", "net_1/block_1/out_1/Tanh", "net_1/block_1_1/Tanh", "other/Tanh"}) {
    b.Float(name, "Tanh", {y});
    y = name;
  }
  b.Float("loss", "Exp", {y});
  std::string grad = "loss";
  for (const char* name :
       {"other/Tanh", "net_1/block_1_1/Tanh", "net_1/block_1/out_1/Tanh", "net_1/block_1/in_1/Tanh"}) {
    const std::string next = std::string("gradient_tape/") + name;
    b.Float(next, "TanhGrad", {name, grad});
    grad = next;
  }
  b.Fetch(grad);
  const auto layer = [](const std::string& form, const std::string& path) {
    return "layer\t" + form + "\trecompute\t\twhere\tnet\t" + path;
  };
  const HintsOf block(b.item(), layer("region", "block"));
  EXPECT_EQ(block.Of("net_1/block_1/in_1/Tanh"), Hint::kRecompute);
  EXPECT_EQ(block.Of("net_1/block_1/out_1/Tanh"), Hint::kNone);  // its result
  EXPECT_EQ(block.Of("net_1/block_1_1/Tanh"), Hint::kNone);
  EXPECT_EQ(block.Of("gradient_tape/net_1/block_1/in_1/Tanh"), Hint::kNone);
  const HintsOf leaf(b.item(), layer("leaf", "block/out"));
  EXPECT_EQ(leaf.Of("net_1/block_1/out_1/Tanh"), Hint::kRecompute);
  EXPECT_EQ(leaf.Of("net_1/block_1/in_1/Tanh"), Hint::kNone);
  const HintsOf other(b.item(), layer("leaf", "block_1"));
  EXPECT_EQ(other.Of("net_1/block_1_1/Tanh"), Hint::kRecompute);
  EXPECT_EQ(other.Of("net_1/block_1/out_1/Tanh"), Hint::kNone);
}

// "twin_1" is a second call of the model "twin", of which the layer "in" is "in_1" there, or the first call of another
// model, the layer of which has that name.
TEST(Hints, AScopeThatTwoModelsMayHaveIsOfTheOneWhoseVariablesItReads) {
  testing::GraphBuilder b;
  b.Feed("x", {256, 64});
  for (const char* name : {"a", "b"}) {
    b.Add(name, "_Arg", {}, {testing::Type("T", tensorflow::DT_RESOURCE)});
    (*b.item().graph.mutable_node(b.item().graph.node_size() - 1)->mutable_attr())["index"].set_i(name[0] - 'a');
  }
  b.Add("inlined", "Identity", {"b"}, {testing::Type("T", tensorflow::DT_RESOURCE)});
  b.Read("twin_1/in_1/read", "inlined");
  b.Float("twin_1/in_1/Tanh", "Tanh", {"x"});
  b.Float("loss", "Exp", {"twin_1/in_1/Tanh"});
  const auto lines = [](const std::string& model, const std::string& arguments, const std::string& layer) {
    return "model\t" + model + "\t" + arguments + "\nlayer\tleaf\trecompute\t\twhere\t" + model + "\t" + layer + "\n";
  };
  const auto marked = [&b](const std::string& named) {
    const HintMarks marks(b.item().graph, named);
    return std::make_pair(marks.any(), marks.warnings().size());
  };
  using Found = std::pair<bool, size_t>;
  EXPECT_EQ(marked(lines("twin", "0", "in")), Found(false, 0));
  EXPECT_EQ(marked(lines("twin", "1", "in")), Found(true, 0));
  EXPECT_EQ(marked(lines("twin_1", "0,2", "in_1")), Found(false, 0));
  EXPECT_EQ(marked(lines("twin_1", "1,2", "in_1")), Found(true, 0));
  EXPECT_EQ(marked(lines("twin", "0", "in") + lines("twin_1", "1", "in_1")), Found(true, 0));
  // Where nobody knows, each may be meant, and two of them are said to be.
  EXPECT_EQ(marked(lines("twin", "", "in")), Found(true, 0));
  EXPECT_EQ(marked(lines("twin", "", "in") + lines("twin_1", "", "in_1")), Found(true, 1));
  EXPECT_EQ(HintMarks(b.item().graph, lines("twin", "", "in") + lines("twin_1", "", "in_1")).warnings()[0],
            "hint_layers: what is computed in twin_1 may be of the model twin or of twin_1, and no variable tells: the "
            "hints of each hold for it");
}

TEST(Hints, WhatCannotBeFollowedIsSaidWithTheReason) {
  Item item = TrainChain(4);
  Mark(&item, "read_1", "tensor|recompute||0|a.py:2");
  Mark(&item, "tanh_1", "tensor|swap||0|a.py:3");
  Mark(&item, "tanh_2", "tensor|recompute||7|a.py:4");
  Mark(&item, "update_0", "tensor|keep||0|a.py:5");
  const HintsOf hinted(item);
  EXPECT_EQ(hinted.Of("tanh_1"), Hint::kNone);
  EXPECT_NE(hinted.Warnings().find("lms.swap (a.py:3): tanh_1:0 stays as it is: nowhere"), std::string::npos)
      << hinted.Warnings();
  EXPECT_NE(hinted.Warnings().find("lms.recompute (a.py:4): tanh_2:7 is not made in the step"), std::string::npos);
  EXPECT_NE(hinted.Warnings().find("(a.py:5)"), std::string::npos);
  const HintsOf forbidden(item, "node\ttanh_3\ttensor|recompute||0|b.py:1", /*recompute=*/false);
  EXPECT_NE(forbidden.Warnings().find("tanh_3:0 stays as it is: recompute=False"), std::string::npos);
}

TEST(Hints, NonsenseIsLeftOut) {
  Item item = TrainChain(2);
  Mark(&item, "tanh_0", "||||");
  Mark(&item, "matmul_0", "tensor|explode||0|a;region|keep|1;;|");
  Mark(&item, "tanh_1", "");
  const HintsOf hinted(item, std::string("layer\tregion\tkeep\t\tw\tm\t\nlayer\t\nnode\t\t\n\xff\xfe"));
  EXPECT_FALSE(hinted.marks().any());
}

}  // namespace
}  // namespace lms
