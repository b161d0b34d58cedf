#include "cc/core/options/swap_filters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lms {
namespace {

// One op per name, with one buffer each; "weight" is resident.
MemGraph Graph() {
  MemGraph graph;
  const std::vector<std::pair<std::string, std::string>> ops = {{"call/model/block1/conv/Conv2D", "Conv2D"},
                                                                {"call/model/block1/relu/Relu", "Relu"},
                                                                {"call/model/block10/conv/Conv2D", "Conv2D"},
                                                                {"model/head/MatMul", "MatMul"}};
  for (const auto& [name, type] : ops) {
    MemOp op;
    op.name = name;
    op.type = type;
    MemBuffer buffer;
    buffer.name = name + ":0";
    buffer.bytes = 64;
    buffer.producer = static_cast<OpId>(graph.ops.size());
    op.outputs.push_back(static_cast<BufferId>(graph.buffers.size()));
    graph.ops.push_back(op);
    graph.buffers.push_back(buffer);
  }
  MemBuffer weight;
  weight.name = "weight:0";
  weight.resident = true;
  graph.buffers.push_back(weight);
  return graph;
}

std::string Left(const Options& options, std::vector<std::string>* warnings = nullptr) {
  MemGraph graph = Graph();
  const std::vector<std::string> told = FilterSwappable(options, &graph);
  if (warnings != nullptr) *warnings = told;
  std::string left;
  for (size_t i = 0; i < graph.ops.size(); ++i) left += graph.buffers[i].swappable ? "+" : "-";
  return left;
}

TEST(SwapFilters, NothingSaidIsEverything) { EXPECT_EQ(Left(Options()), "++++"); }

TEST(SwapFilters, ScopesEndAtSlashes) {
  Options options;
  options.swap_include = "block1";
  EXPECT_EQ(Left(options), "++--");
  options.swap_include = "model/block1,head";
  EXPECT_EQ(Left(options), "++-+");
  options.swap_include = "block1/conv/Conv2D";
  EXPECT_EQ(Left(options), "+---");
  options.swap_include = "call/model";
  options.swap_exclude = "block1/relu";
  EXPECT_EQ(Left(options), "+-+-");
}

TEST(SwapFilters, Types) {
  Options options;
  options.swap_include_ops = "Conv2D,MatMul";
  EXPECT_EQ(Left(options), "+-++");
  options.swap_exclude = "head";
  EXPECT_EQ(Left(options), "+-+-");
  options = Options();
  options.swap_exclude_ops = "Conv2D";
  EXPECT_EQ(Left(options), "-+-+");
}

TEST(SwapFilters, WhatIsNotSwappableStaysSo) {
  Options options;
  options.swap_include = "block1";
  MemGraph graph = Graph();
  graph.buffers[0].swappable = false;
  FilterSwappable(options, &graph);
  EXPECT_FALSE(graph.buffers[0].swappable);
}

TEST(SwapFilters, LargerOnes) {
  MemGraph graph = Graph();
  graph.buffers[0].bytes = 101;
  graph.buffers[1].bytes = 100;
  FilterLarger(100, &graph);
  EXPECT_FALSE(graph.buffers[0].swappable);
  EXPECT_TRUE(graph.buffers[1].swappable);
}

TEST(SwapFilters, NamesThatFitNothingAreTold) {
  Options options;
  options.swap_include = "block1,blok2";
  options.swap_exclude = "block1/relu";
  options.swap_include_ops = "Conv2D";
  options.swap_exclude_ops = "Relu,Conv3D";
  std::vector<std::string> warnings;
  EXPECT_EQ(Left(options, &warnings), "+---");
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0], "swap_include: 'blok2' is a scope that no tensor of the step is made in");
  EXPECT_EQ(warnings[1], "swap_exclude_ops: 'Conv3D' is the type of no operation of the step that makes a tensor");
}

}  // namespace
}  // namespace lms
