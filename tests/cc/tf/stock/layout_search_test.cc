#include "cc/tf/stock/layout_search.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;

class Searched {
 public:
  explicit Searched(const std::string& text) {
    builder_.Parse(text);
    EXPECT_TRUE(index_.Build(builder_.item()).ok());
    std::vector<std::vector<ReaderEdge>> readers(index_.size());
    int edges = 0;
    for (int to = 0; to < index_.size(); ++to) {
      for (const TensorRef& input : index_[to].inputs) readers[input.node].push_back({edges++, to});
      for (const int from : index_[to].controls) readers[from].push_back({edges++, to});
      if (index_[to].inputs.empty()) roots_.push_back({edges++, to});
    }
    search_ = std::make_unique<LayoutSearch>(index_, readers, roots_, edges, EdgeDraws::kByAddress, 0);
  }

  // The names of the nodes, one letter each, in the order of a search.
  std::string Order() {
    std::string order;
    for (const int node : search_->ReversePostOrder()) order += builder_.item().graph.node(node).name();
    return order;
  }

  void Merge(const std::string& part, const std::string& into) { search_->Merge(index_.Find(part), index_.Find(into)); }

 private:
  GraphBuilder builder_;
  GraphIndex index_;
  std::vector<ReaderEdge> roots_;
  std::unique_ptr<LayoutSearch> search_;
};

TEST(LayoutSearchTest, WhatANodeLeadsToLastIsVisitedFirstAndComesLast) {
  Searched searched("x[8]; r = Neg(x); f = Neg(r); b = Neg(r); i = Neg(r); s = Add(f, i); fetch s, b");
  EXPECT_EQ(searched.Order(), "xrfbis");
  EXPECT_EQ(searched.Order(), "xrfbis");
}

TEST(LayoutSearchTest, OfFewEdgesTheLastTakesThePlaceOfOneThatIsRemoved) {
  Searched searched("x[8]; r = Neg(x); f = Neg(r); b = Neg(r); i = Neg(r); s = Add(f, i); fetch s, b");
  // r leads to f, b, i and the new node; without b: f, new, i; without f: i, new.
  searched.Merge("b", "f");
  EXPECT_EQ(searched.Order(), "xrifs");
}

TEST(LayoutSearchTest, TheNewNodeLeadsToAllThatBothLedTo) {
  Searched searched(
      "x[8]; r = Neg(x); f = Neg(r); b = Neg(r); p = Neg(b); q = Neg(f); c = Neg(x); s = Add(q, p); fetch s, c");
  EXPECT_EQ(searched.Order(), "xrfqbpsc");
  searched.Merge("b", "f");
  EXPECT_EQ(searched.Order(), "xrfpqsc");
}

}  // namespace
}  // namespace lms
