#include "cc/tf/stock/executor_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"
#include "tests/cc/tf/loop_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;

class Model {
 public:
  explicit Model(GraphBuilder* b, bool onednn = false, EdgeDraws draws = EdgeDraws::kByAddress)
      : graph_(b->item().graph) {
    EXPECT_TRUE(index_.Build(b->item()).ok());
    model_ = std::make_unique<ExecutorModel>(graph_, index_, onednn, draws);
  }

  // The names of the nodes that start with the letter, in the order of a run, without it.
  std::string Order(char letter, uint32_t seed = 0) const {
    std::string order;
    for (const int node : model_->Run(seed)) {
      const std::string& name = graph_.node(node).name();
      if (name[0] == letter) order += name.substr(1);
    }
    return order;
  }

  // The same on threads, with what begins and ends: "+1" and "-1".
  std::string OnThreads(char letter, int threads, double microseconds, bool one_lane = false) const {
    return OnThreads(letter, threads, std::vector<double>(graph_.node_size(), microseconds), one_lane);
  }
  std::string OnThreads(char letter, int threads, const std::vector<double>& durations, bool one_lane) const {
    std::string order;
    for (const ExecutorModel::Event& event : model_->RunOnThreads(0, threads, durations, one_lane)) {
      const std::string& name = graph_.node(event.node).name();
      if (name[0] == letter) order += (event.ends ? "-" : "+") + name.substr(1);
    }
    return order;
  }

  size_t Nodes() const { return model_->Run(0).size(); }

 private:
  tensorflow::GraphDef graph_;
  GraphIndex index_;
  std::unique_ptr<ExecutorModel> model_;
};

TEST(ExecutorModelTest, OneThreadTakesTheLastThatBecameReadyFirstAndGoesDeep) {
  GraphBuilder b;
  b.Parse("x[8]; n1 = Neg(x); n2 = Neg(x); n3 = Neg(x); n4 = Exp(n3); n5 = AddN(n1, n2, n4); fetch n5");
  // x hands on to 1, 2 and 3: the last goes on, with 4 behind it, while 1 and 2 wait in the pool, the newer in front.
  EXPECT_EQ(Model(&b).Order('n'), "34215");
}

TEST(ExecutorModelTest, SeveralThreadsTakeWhatOthersLeave) {
  GraphBuilder b;
  b.Parse("x[8]; n1 = Neg(x); n2 = Neg(x); n3 = Neg(x); n4 = AddN(n1, n2, n3); fetch n4");
  EXPECT_EQ(Model(&b).OnThreads('n', 1, 50), "+3-3+2-2+1-1+4-4");  // as with one thread
  // The one that ran x goes on with 3, another takes the oldest that it has left, a third the other one.
  EXPECT_EQ(Model(&b).OnThreads('n', 2, 50).substr(0, 4), "+3+1");
  EXPECT_EQ(Model(&b).OnThreads('n', 3, 50).substr(0, 6), "+3+1+2");
  EXPECT_EQ(Model(&b).OnThreads('n', 3, 50).substr(12), "+4-4");  // waits for all
}

TEST(ExecutorModelTest, ThreadsRunAllNodesOnce) {
  const testing::Imported step(testing::TrainChain(5));
  const ExecutorModel model(step.item().graph, step.index(), false, EdgeDraws::kByAddress);
  for (uint32_t seed = 0; seed < 5; ++seed) {
    std::vector<int> begun(step.index().size(), 0);
    std::vector<int> ended(step.index().size(), 0);
    for (const ExecutorModel::Event& event :
         model.RunOnThreads(seed, 3, std::vector<double>(step.index().size(), 20))) {
      (event.ends ? ended : begun)[event.node]++;
      for (const TensorRef& input : step.index()[event.node].inputs) EXPECT_EQ(ended[input.node], 1);
    }
    for (int i = 0; i < step.index().size(); ++i) {
      EXPECT_EQ(begun[i], step.index()[i].live ? 1 : 0);
      EXPECT_EQ(ended[i], begun[i]);
    }
  }
}

TEST(ExecutorModelTest, WhatReadsACopyWaitsForItAndNothingElseDoes) {
  GraphBuilder b;
  b.Parse("x[8]; y[8]; slow = Exp(x); quick = Exp(y); quicker = Neg(quick); end = AddN(slow, quicker); fetch end");
  const testing::Imported step(b.item());
  const auto begun = [&](const std::vector<int>& arrivals, double microseconds) {
    const ExecutorModel model(step.item().graph, step.index(), false, EdgeDraws::kByAddress,
                              ExecutorModel::Iteration::kFirst, arrivals);
    std::vector<double> durations(step.index().size(), 10);
    durations[step.index().Find("x")] = microseconds;
    std::vector<std::string> order;
    for (const ExecutorModel::Event& event : model.RunOnThreads(0, 1, durations)) {
      if (!event.ends) order.push_back(step.item().graph.node(event.node).name());
    }
    EXPECT_EQ(order.size(), 6);
    return order;
  };
  const std::vector<std::string> late = begun({step.index().Find("x")}, 1000);
  const auto at = [&](const char* name) { return std::find(late.begin(), late.end(), name); };
  EXPECT_LT(at("quicker"), at("slow"));
  EXPECT_LT(at("x"), at("quick"));           // its memory is taken when the copy begins
  EXPECT_EQ(begun({}, 1000), begun({}, 0));  // by a thread: that runs nothing else meanwhile
}

// The branch that is not taken waits for what takes long; the Merge has the other one's result by then.
TEST(ExecutorModelTest, NobodyWaitsForABranchThatIsNotTaken) {
  GraphBuilder b;
  b.Parse("x[8]; p = Placeholder; either = Switch(x, p); long = Exp(x); yes = Exp(either:1, ^long)");
  b.Parse("no = Neg(either); out = Merge(no, yes); last = Exp(out); end = AddN(last, long); fetch end");
  const testing::Imported step(b.item());
  const ExecutorModel model(step.item().graph, step.index(), false, EdgeDraws::kByAddress);
  const int branch = step.index().Find("yes");
  std::vector<double> durations(step.index().size(), 10);
  durations[step.index().Find("long")] = 1000;
  const auto last_comes_first = [&](const std::vector<bool>& dead) {
    std::vector<int> ended;
    for (const ExecutorModel::Event& event : model.RunOnThreads(0, 2, durations, false, dead)) {
      if (event.ends) ended.push_back(event.node);
    }
    EXPECT_EQ(ended.size(), model.Run(0).size());
    const auto at = [&](const char* name) { return std::find(ended.begin(), ended.end(), step.index().Find(name)); };
    return at("last") < at("long");
  };
  EXPECT_FALSE(last_comes_first({}));
  std::vector<bool> dead(step.index().size(), false);
  dead[branch] = true;
  EXPECT_TRUE(last_comes_first(dead));
}

TEST(ExecutorModelTest, InTheMiddleOfALoopAllThatEntersItIsThere) {
  testing::LoopBuilder b;
  b.Parse("late = Tanh(x); later = Tanh(late); latest = Tanh(later)");
  b.Carry("y", "x", "body", tensorflow::DT_FLOAT);
  b.Carry("z", "latest", "turn", tensorflow::DT_FLOAT);
  b.Parse("turn = Tanh(z_switch:1); body = Tanh(y_switch:1); fetch y_exit, z_exit");
  const testing::Imported step(b.item());
  const auto waits = [&step](ExecutorModel::Iteration iteration) {
    const ExecutorModel model(step.item().graph, step.index(), false, EdgeDraws::kByAddress, iteration);
    const std::vector<int> order = model.Run(0);
    const auto at = [&](const char* name) { return std::find(order.begin(), order.end(), step.index().Find(name)); };
    return at("latest") < at("cond");
  };
  EXPECT_FALSE(waits(ExecutorModel::Iteration::kFirst));
  EXPECT_TRUE(waits(ExecutorModel::Iteration::kMiddle));
}

TEST(ExecutorModelTest, CheapNodesGoFirst) {
  GraphBuilder b;
  b.Parse("x[8]; n1 = Neg(x); n2 = Identity(x); n3 = Neg(n2); n4 = Add(n1, n3); fetch n4");
  // The view runs on the spot and so does what it makes ready; 1, which is dearer, is sent to the pool.
  EXPECT_EQ(Model(&b).Order('n'), "2314");
}

TEST(ExecutorModelTest, ReadersOfTensorsComeBeforeThoseThatOnlyWait) {
  GraphBuilder b;
  b.Parse("x[8]; n1 = Identity(y, ^x); n2 = Identity(x); y[8]; n3 = Add(n1, n2); fetch n3");
  // Whichever of x and y comes first: x makes 2 ready before 1, unless y is still to come.
  const Model model(&b);
  for (uint32_t seed = 0; seed < 8; ++seed) EXPECT_EQ(model.Order('n', seed), "213") << seed;
}

TEST(ExecutorModelTest, MoreThanEightReadersComeInAnyOrder) {
  for (const int readers : {8, 9}) {
    GraphBuilder b;
    b.Feed("x", {8});
    std::vector<std::string> all;
    for (int i = 0; i < readers; ++i) {
      all.push_back("n" + std::to_string(i));
      b.Float(all.back(), "Neg", {"x"});
    }
    b.Float("sum", "AddN", all, {testing::Int("N", readers)});
    b.Fetch("sum");
    for (const EdgeDraws draws : {EdgeDraws::kByAddress, EdgeDraws::kAny}) {
      const Model model(&b, false, draws);
      std::set<std::string> orders;
      for (uint32_t draw = 0; draw < 8; ++draw) orders.insert(model.Order('n', draw));
      EXPECT_EQ(model.Order('n', 3), model.Order('n', 3));
      if (readers == 8) {
        EXPECT_EQ(orders, std::set<std::string>{"76543210"});
      } else {
        EXPECT_GT(orders.size(), 4U);
      }
    }
  }
}

TEST(ExecutorModelTest, WhatOneDnnReplacesIsNumberedInSeveralWays) {
  GraphBuilder b;
  b.Feed("x", {8, 8});
  std::vector<std::string> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back("n" + std::to_string(i));
    b.Float(all.back(), "MatMul", {"x", "x"});
    b.Float("m" + std::to_string(i), "MatMul", {all.back(), all.back()});
    b.Fetch("m" + std::to_string(i));
  }
  for (const bool onednn : {false, true}) {
    const tensorflow::GraphDef graph = b.item().graph;
    GraphIndex index;
    ASSERT_TRUE(index.Build(b.item()).ok());
    std::vector<int> fused(index.size());
    std::iota(fused.begin(), fused.end(), 0);
    const NodeNumbers numbers(graph, index, fused, onednn, EdgeDraws::kByAddress);
    EXPECT_EQ(numbers.Fixed(), !onednn);
    EXPECT_TRUE(NodeNumbers(graph, index, fused, onednn, EdgeDraws::kAny).Fixed());
    std::set<std::vector<int>> seen;
    for (uint32_t draw = 0; draw < 8; ++draw) {
      const std::vector<int> order = numbers.Draw(draw);
      EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), static_cast<size_t>(index.size()));
      EXPECT_EQ(graph.node(order[0]).name(), "x");
      seen.insert(order);
    }
    EXPECT_GT(seen.size(), onednn ? 4U : 0U);
    EXPECT_LE(seen.size(), onednn ? 8U : 1U);
  }
}

TEST(ExecutorModelTest, OneDnnReplacesNothingOfTypesThatItHasNoKernelsFor) {
  for (const tensorflow::DataType type : {tensorflow::DT_DOUBLE, tensorflow::DT_FLOAT}) {
    GraphBuilder b;
    b.Add("x", "Placeholder", {}, {testing::Type("dtype", type)});
    b.Add("n", "MatMul", {"x", "x"}, {testing::Type("T", type)});
    b.Fetch("n");
    GraphIndex index;
    ASSERT_TRUE(index.Build(b.item()).ok());
    const std::vector<int> fused = {0, 1};
    const NodeNumbers numbers(b.item().graph, index, fused, /*onednn=*/true, EdgeDraws::kByAddress);
    EXPECT_EQ(numbers.Fixed(), type == tensorflow::DT_DOUBLE);
  }
}

TEST(ExecutorModelTest, OneDnnReplacesTranspositionsOfMoreTypes) {
  using Types = std::vector<tensorflow::DataType>;
  for (const tensorflow::DataType type : Types{tensorflow::DT_FLOAT, tensorflow::DT_DOUBLE, tensorflow::DT_COMPLEX64,
                                               tensorflow::DT_INT32, tensorflow::DT_BOOL}) {
    GraphBuilder b;
    b.Add("x", "Placeholder", {}, {testing::Type("dtype", type)});
    b.Add("order", "Placeholder", {}, {testing::Type("dtype", tensorflow::DT_INT32)});
    b.Add("n", "Transpose", {"x", "order"}, {testing::Type("T", type), testing::Type("Tperm", tensorflow::DT_INT32)});
    b.Fetch("n");
    GraphIndex index;
    ASSERT_TRUE(index.Build(b.item()).ok());
    const std::vector<int> fused = {0, 1, 2};
    const NodeNumbers numbers(b.item().graph, index, fused, /*onednn=*/true, EdgeDraws::kByAddress);
    EXPECT_EQ(numbers.Fixed(), type == tensorflow::DT_INT32 || type == tensorflow::DT_BOOL) << type;
  }
}

TEST(ExecutorModelTest, WhatOneDnnReplacesComesAfterOtherReaders) {
  GraphBuilder b;
  b.Parse("x[8, 8]; n1 = MatMul(x, x); n2 = Neg(x); n3 = Add(n1, n2); fetch n3");
  // The reader with the highest number goes on, the others wait in the pool.
  EXPECT_EQ(Model(&b, false).Order('n'), "213");
  EXPECT_EQ(Model(&b, true).Order('n'), "123");
}

TEST(ExecutorModelTest, OneDnnTakesTheGradientOfABiasAlong) {
  GraphBuilder b;
  b.Parse("x[2, 8, 8, 4]; gradient[2, 8, 8, 4]; sizes{1, 1, 4, 4}; n1 = BiasAddGrad(n4)");
  testing::Attr strides{"strides", {}};
  for (int i = 0; i < 4; ++i) strides.second.mutable_list()->add_i(1);
  b.Float("n2", "Conv2DBackpropFilter", {"x", "sizes", "n4"}, {strides, testing::Text("padding", "SAME")});
  b.Parse("n3 = Neg(n4); n4 = Neg(gradient)");
  for (const char* name : {"n1", "n2", "n3"}) b.Fetch(name);
  const Model apart(&b, false);
  const Model fused(&b, true);
  EXPECT_EQ(apart.Nodes(), fused.Nodes());
  for (uint32_t seed = 0; seed < 8; ++seed) {
    EXPECT_NE(apart.Order('n', seed).find("43"), std::string::npos) << seed;
    EXPECT_NE(fused.Order('n', seed).find("21"), std::string::npos) << seed;
  }
}

TEST(ExecutorModelTest, WhatLeavesALoopRunsAfterAllThatTheLoopTakesIn) {
  GraphBuilder b;
  b.Parse("x[]; p[]");
  const std::vector<testing::Attr> frame{testing::Text("frame_name", "f")};
  b.Float("n1", "Exp", {"p"});
  b.Float("enter", "Enter", {"x"}, frame);
  b.Float("constant", "Enter", {"n1"}, {testing::Text("frame_name", "f"), testing::Bool("is_constant", true)});
  b.Parse("merge = Merge(enter, next); zero = Const[]");
  b.item().graph.mutable_node(b.item().graph.node_size() - 1)->add_input("^merge");
  b.Float("less", "Less", {"merge", "zero"});
  b.Add("loop", "LoopCond", {"less"});
  b.Parse(
      "switch = Switch(merge, loop); body = Add(switch:1, constant); next = NextIteration(body); "
      "exit = Exit(switch); n2 = Neg(exit); fetch n2");
  const Model model(&b);
  EXPECT_EQ(model.Nodes(), 14U);
  for (uint32_t seed = 0; seed < 8; ++seed) EXPECT_EQ(model.Order('n', seed), "1ext2") << seed;
}

// n1, n2 and n3 are swapped out under these deadlines; n7 to n9 bring them back and are waited for by n0. Beside that
// runs a chain of four.
GraphBuilder WithSwaps(const std::vector<int>& deadlines) {
  GraphBuilder b;
  b.Feed("x", {8});
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i + 1);
    b.Float("n" + n, "LmsSwapOut", {"x"}, {testing::Text("tier", "disk"), testing::Int("deadline", deadlines[i])});
    b.Float("n" + std::to_string(i + 7), "LmsSwapIn", {"n" + n},
            {testing::Shape("shape", {8}), testing::Int("deadline", 10 + deadlines[i])});
  }
  b.Float("c1", "Exp", {"x"});
  for (int i = 2; i < 5; ++i) b.Float("c" + std::to_string(i), "Exp", {"c" + std::to_string(i - 1)});
  b.Parse("n0 = AddN(n7, n8, n9, c4); fetch n0");
  return b;
}

// Of WithSwaps(), where all but the swaps is quick.
std::vector<double> Durations(double out, double in) { return {0, out, in, out, in, out, in, 1, 1, 1, 1, 1}; }

TEST(ExecutorModelTest, SwapsTakeNoThreadAndTheMostUrgentGoesFirst) {
  GraphBuilder b = WithSwaps({3, 2, 1});
  // All begin at once. The first one takes the link, the others follow by their deadlines.
  const std::string order = Model(&b).OnThreads('n', 1, Durations(100, 100), true);
  EXPECT_EQ(order.substr(0, 6), "+1+2+3");
  EXPECT_LT(order.find("-1"), order.find("-3"));
  EXPECT_LT(order.find("-3"), order.find("-2"));
  EXPECT_LT(order.find("-9"), order.find("-8"));
  EXPECT_LT(order.find("-8"), order.find("-7"));
  EXPECT_EQ(order.substr(order.size() - 4), "+0-0");
  // Beside them the chain runs on the only thread, and has run when the first of them has ended.
  EXPECT_EQ(Model(&b).OnThreads('c', 1, Durations(100, 100), true), "+1-1+2-2+3-3+4-4");
}

TEST(ExecutorModelTest, DirectionsShareOneLaneOrHaveOneEach) {
  GraphBuilder b = WithSwaps({1, 2, 3});
  const Model model(&b);
  // In one lane what goes out comes first, as it is wanted first; with two, the first one is back while the third goes.
  const std::string one = model.OnThreads('n', 1, Durations(100, 100), true);
  EXPECT_LT(one.find("-3"), one.find("-7"));
  const std::string two = model.OnThreads('n', 1, Durations(100, 50), false);
  EXPECT_LT(two.find("-7"), two.find("-2"));
  EXPECT_LT(two.find("-8"), two.find("-3"));
  // What comes back has its place in memory from when it begins, while it waits for the link.
  const std::string slow = model.OnThreads('n', 1, Durations(10, 100), false);
  EXPECT_LT(slow.find("+9"), slow.find("-7"));
}

TEST(ExecutorModelTest, WithoutAClockSwapsEndWhenNothingIsAtHand) {
  GraphBuilder b = WithSwaps({1, 2, 3});
  const Model model(&b);
  EXPECT_EQ(model.Nodes(), static_cast<size_t>(b.item().graph.node_size()));
  const std::string order = model.Order('n');
  EXPECT_EQ(order.substr(0, 3), "123");
  EXPECT_EQ(order.back(), '0');
  EXPECT_EQ(order.size(), 7U);
}

TEST(ExecutorModelTest, CollectiveOperationsTakeNoThreadAndFollowEachOther) {
  GraphBuilder b;
  b.Parse("x[8]; size{1}; n4 = Exp(x); n5 = Exp(n4)");
  b.Float("n1", "CollectiveReduceV2", {"x", "size", "size", "size"}, {testing::Text("merge_op", "Add")});
  b.Float("n2", "CollectiveReduceV2", {"x", "size", "size", "size", "^n1"}, {testing::Text("merge_op", "Add")});
  b.Parse("n0 = AddN(n1, n2, n5); fetch n0");
  const Model model(&b);
  std::vector<double> durations(static_cast<size_t>(b.item().graph.node_size()), 1);
  for (int i = 0; i < b.item().graph.node_size(); ++i) {
    if (b.item().graph.node(i).op() == "CollectiveReduceV2") durations[i] = 100;
  }
  for (const bool one_lane : {true, false}) {
    EXPECT_EQ(model.OnThreads('n', 1, durations, one_lane), "+1+4-4+5-5-1+2-2+0-0");
  }
}

}  // namespace
}  // namespace lms
