#include "cc/tf/import/import_tapes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using tensorflow::DT_FLOAT;
using testing::GraphBuilder;
using testing::Imported;

void PyFunction(const std::string& name, const std::string& input, const std::string& token, GraphBuilder* b) {
  b->Add(name, "EagerPyFunc", {input},
         {testing::Types("Tin", {DT_FLOAT}), testing::Types("Tout", {DT_FLOAT}), testing::Text("token", token)});
}

// Two calls in a chain, the tokens of nine and ten: the gradient of the second one is made, and runs, first.
GraphBuilder TwoCalls() {
  GraphBuilder b;
  b.Parse("x[256, 64]; a = Tanh(x)");
  PyFunction("first", "a", "pyfunc_8", &b);
  b.Parse("c = Exp(first)");
  PyFunction("second", "c", "pyfunc_9", &b);
  b.Parse("loss = Exp(second)");
  PyFunction("gradient_tape/of_second", "loss", "pyfunc_10", &b);
  b.Parse("dc = Exp(gradient_tape/of_second)");
  PyFunction("gradient_tape/of_first", "dc", "pyfunc_11", &b);
  return b;
}

TEST(ImportTapes, AGradientReadsWhatTheTapeOfItsCallHolds) {
  GraphBuilder b = TwoCalls();
  b.Parse("fetch gradient_tape/of_first");
  const Imported step(b.item());
  for (const char* held : {"a", "first"}) {
    EXPECT_TRUE(step.Reads("gradient_tape/of_first", held)) << held;
    EXPECT_FALSE(step.Reads("gradient_tape/of_second", held)) << held;
  }
  for (const char* held : {"c", "second"}) {
    EXPECT_TRUE(step.Reads("gradient_tape/of_second", held)) << held;
    EXPECT_FALSE(step.Reads("gradient_tape/of_first", held)) << held;
  }
  for (const char* held : {"a", "first", "c", "second"}) {
    EXPECT_FALSE(step.Buffer(held).evictable) << held;
    EXPECT_EQ(step.Buffer(held).keep_reason, "held by tf.py_function for its gradient");
  }
  EXPECT_EQ(step.graph().Validate(), "");
}

// Which one of them has it cannot be told: the last one that runs frees all.
TEST(ImportTapes, WithFewerGradientsThanCallsAllWaitForTheLast) {
  GraphBuilder b = TwoCalls();
  PyFunction("third", "a", "pyfunc_12", &b);
  b.Parse("sum = Add(gradient_tape/of_first, third); fetch sum");
  const Imported step(b.item());
  for (const char* held : {"a", "first", "c", "second"}) {
    EXPECT_TRUE(step.Reads("gradient_tape/of_first", held)) << held;
  }
}

// Who only looks at a tensor has no tape.
TEST(ImportTapes, ACallWithoutAGradientHoldsNothing) {
  GraphBuilder b;
  b.Parse("x[256, 64]; a = Tanh(x)");
  PyFunction("look", "a", "pyfunc_1", &b);
  PyFunction("again", "a", "pyfunc_2", &b);
  b.Parse("sum = Add(look, again); fetch sum");
  const Imported step(b.item());
  EXPECT_TRUE(step.Buffer("a").evictable) << step.Buffer("a").keep_reason;
}

}  // namespace
}  // namespace lms
