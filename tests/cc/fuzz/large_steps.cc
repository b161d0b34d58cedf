#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/public/version.h"
#include "tests/cc/fuzz/random_step.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::fuzz {

using lms::testing::GraphBuilder;
using lms::testing::Int;

namespace {

FuzzCase Finished(GraphBuilder* graph, const std::string& why, Random* random) {
  FuzzCase fuzz_case;
  fuzz_case.item = std::move(graph->item());
  fuzz_case.item.graph.mutable_versions()->set_producer(TF_GRAPH_DEF_VERSION);
  fuzz_case.valid = true;
  fuzz_case.why = why;
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

}  // namespace

FuzzCase LongChain(Random* random, int nodes) {
  GraphBuilder b;
  b.Feed("x", {8, 8});
  std::string last = "x";
  const bool views = random->OneIn(3);
  const bool control = random->OneIn(3);
  for (int i = 0; i < nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    b.Float(name, views ? "Identity" : "Neg", {control && i > 0 ? "x" : last});
    if (control && i > 0) b.item().graph.mutable_node(b.item().graph.node_size() - 1)->add_input("^" + last);
    last = name;
  }
  b.Fetch(last);
  return Finished(&b, "a chain of " + std::to_string(nodes), random);
}

FuzzCase WideSum(Random* random, int inputs) {
  GraphBuilder b;
  b.Feed("x", {64, 64});
  std::vector<std::string> terms;
  const bool control = random->OneIn(3);
  const bool one = random->OneIn(2);
  for (int i = 0; i < inputs; ++i) {
    if (i == 0 || !one) {
      b.Float("n" + std::to_string(i), "Neg", {"x"});
      terms.push_back((control && i > 0 ? "^n" : "n") + std::to_string(i));
    } else if (!control) {
      terms.push_back("n0");
    }
  }
  b.Float("sum", "AddN", terms, {Int("N", control ? 1 : inputs)});
  b.Fetch("sum");
  return Finished(&b, "a sum of " + std::to_string(inputs), random);
}

}  // namespace lms::fuzz
