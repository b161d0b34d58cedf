#include "cc/core/text/text_format.h"

#include <gtest/gtest.h>
#include <locale.h>

#include <string>
#include <utility>

#include "cc/core/search/planner.h"
#include "cc/core/simulate/liveness.h"
#include "cc/core/text/text_reader.h"
#include "tests/cc/core/random_graph.h"

namespace lms {
namespace {

using testing::AddBuffer;
using testing::AddOp;
using testing::OutputOf;
using testing::Random;
using testing::RandomGraph;

void ExpectEqual(const MemGraph& a, const MemGraph& b) {
  ASSERT_EQ(a.ops.size(), b.ops.size());
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const MemOp& x = a.ops[i];
    const MemOp& y = b.ops[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.cost_us, y.cost_us) << x.name;
    EXPECT_EQ(x.workspace_bytes, y.workspace_bytes) << x.name;
    EXPECT_EQ(x.deps, y.deps) << x.name;
    EXPECT_EQ(x.inputs, y.inputs) << x.name;
    EXPECT_EQ(x.outputs, y.outputs) << x.name;
    EXPECT_EQ(x.forwardable, y.forwardable) << x.name;
    EXPECT_EQ(x.recomputable, y.recomputable) << x.name;
    EXPECT_EQ(x.keep_reason, y.keep_reason) << x.name;
    EXPECT_EQ(x.anchor, y.anchor) << x.name;
  }
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    const MemBuffer& x = a.buffers[i];
    const MemBuffer& y = b.buffers[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.bytes, y.bytes) << x.name;
    EXPECT_EQ(x.producer, y.producer) << x.name;
    EXPECT_EQ(x.resident, y.resident) << x.name;
    EXPECT_EQ(x.escapes, y.escapes) << x.name;
    EXPECT_EQ(x.evictable, y.evictable) << x.name;
    EXPECT_EQ(x.swappable, y.swappable) << x.name;
    EXPECT_EQ(x.keep_reason, y.keep_reason) << x.name;
    EXPECT_EQ(x.no_more_readers, y.no_more_readers) << x.name;
    EXPECT_EQ(x.overwritten_by, y.overwritten_by) << x.name;
  }
}

// A random graph with everything in it that the format can say.
MemGraph RichGraph(uint64_t seed) {
  MemGraph graph = RandomGraph(seed, 5 + static_cast<int>(seed % 20));
  Random random(seed + 1000);
  static const char* const kNames[] = {"a b", "", "#", "say \"a\"", "back\\slash", "tab\tline\n", "\x01\xff", "größe"};
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    MemOp& op = graph.ops[i];
    if (random.OneIn(4)) op.name = kNames[random.Below(8)] + std::to_string(i);
    if (random.OneIn(3)) op.type = kNames[random.Below(8)];
    if (random.OneIn(3)) op.cost_us = 1.0 / (1 + random.Below(1000));
    if (random.OneIn(9)) op.cost_us = 0;
    op.anchor = !random.OneIn(5);
    if (i > 0 && random.OneIn(3)) op.deps.push_back(random.Below(static_cast<int>(i)));
    if (!op.recomputable) op.keep_reason = kNames[random.Below(8)];
  }
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    MemBuffer& buffer = graph.buffers[b];
    if (random.OneIn(4)) buffer.name = kNames[random.Below(8)] + buffer.name;
    buffer.no_more_readers = random.OneIn(9);
    buffer.swappable = !random.OneIn(7);
    const OpId last = static_cast<OpId>(graph.ops.size()) - 1;
    if (random.OneIn(9)) buffer.overwritten_by = {last, last - random.Below(3)};
    if (buffer.producer != kNone && random.OneIn(8)) buffer.resident = true;
    if (!buffer.resident && random.OneIn(8)) {
      buffer.evictable = false;
      buffer.keep_reason = kNames[random.Below(8)];
    }
  }
  // One name for all of them is no name.
  graph.ops[0].name = "";
  graph.buffers[0].name = "";
  return graph;
}

MemGraph Read(const std::string& text, bool sort = false) {
  MemGraph graph;
  EXPECT_EQ(ReadGraph(text, "g", {sort}, &graph), "");
  EXPECT_EQ(graph.Validate(), "");
  return graph;
}

std::string Problem(const std::string& text, bool sort = false) {
  MemGraph graph;
  graph.ops.resize(3);
  const std::string problem = ReadGraph(text, "g", {sort}, &graph);
  EXPECT_EQ(graph.ops.size(), 3u) << "changed in spite of an error";
  return problem;
}

// With the first line, so that the rest starts in line 2.
std::string ProblemAfterHeader(const std::string& rest, bool sort = false) {
  return Problem("lms-graph 1\n" + rest, sort);
}

TEST(TextFormatTest, WhatWasWrittenReadsAsTheSameGraph) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const MemGraph& graph : {RandomGraph(seed, 5 + static_cast<int>(seed % 30)), RichGraph(seed)}) {
      const std::string text = WriteGraph(graph);
      const MemGraph again = Read(text);
      ExpectEqual(again, NormalForm(graph));
      EXPECT_EQ(WriteGraph(again), text);
      ExpectEqual(NormalForm(again), again);
    }
  }
}

TEST(TextFormatTest, TheNormalFormKeepsMemoryAndPlans) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const MemGraph graph = RandomGraph(seed, 20);
    const MemGraph normal = NormalForm(graph);
    const MemoryProfile profile = Simulate(graph, Plan());
    EXPECT_EQ(Simulate(normal, Plan()).op_bytes, profile.op_bytes);
    const PlannerOptions unhurried{true, true, 2000};
    const int64_t limit = profile.peak_bytes * 7 / 10;
    EXPECT_EQ(PlanForLimit(normal, limit, unhurried).cost_us, PlanForLimit(graph, limit, unhurried).cost_us) << seed;
  }
}

TEST(TextFormatTest, BuffersAreNumberedInOrderOfAppearance) {
  // The buffer of the second op has the lower number here.
  MemGraph graph;
  const BufferId second = AddBuffer(&graph, 2, 1);
  const BufferId weight = AddBuffer(&graph, 4, kNone);
  AddOp(&graph, {weight}, 1);
  AddOp(&graph, {OutputOf(graph, 0)}, 0);
  graph.ops[1].outputs.push_back(second);
  ASSERT_EQ(graph.Validate(), "");
  const MemGraph normal = NormalForm(graph);
  EXPECT_EQ(normal.Validate(), "");
  EXPECT_EQ(normal.buffers[0].bytes, 4);
  EXPECT_EQ(normal.buffers[1].bytes, 1);
  EXPECT_EQ(normal.buffers[2].bytes, 2);
  ExpectEqual(Read(WriteGraph(graph)), normal);
}

TEST(TextFormatTest, ProducersAreWaitedForAndNotWritten) {
  // `reader` waits for a view of what it reads, as in graphs of TensorFlow, and `writer` for nothing yet.
  MemGraph graph;
  const BufferId made = OutputOf(graph, AddOp(&graph, {}, 8));
  AddOp(&graph, {}, 0);
  graph.ops[1].deps = {0};
  AddOp(&graph, {made}, 0);
  graph.ops[2].deps = {1};
  AddOp(&graph, {}, 0);
  graph.buffers[made].overwritten_by = {3};
  const MemGraph normal = NormalForm(graph);
  EXPECT_EQ(normal.ops[1].deps, std::vector<OpId>{0});
  EXPECT_EQ(normal.ops[2].deps, (std::vector<OpId>{0, 1}));
  EXPECT_EQ(normal.ops[3].deps, std::vector<OpId>{0});
  EXPECT_EQ(WriteGraph(graph),
            "lms-graph 1\n"
            "op op0 type Op cost 1\n  out b0 8\n"
            "op op1 type Op cost 1\n  after op0\n"
            "op op2 type Op cost 1\n  in b0\n  after op1\n"
            "op op3 type Op cost 1\n  overwrites b0\n");
}

TEST(TextFormatTest, WhatIsReadAroundALoopIsLeftOut) {
  MemGraph graph;
  AddOp(&graph, {}, 8);
  AddOp(&graph, {OutputOf(graph, 0)}, 8);
  graph.ops[0].inputs.push_back(OutputOf(graph, 1));
  graph.buffers[OutputOf(graph, 1)].overwritten_by.push_back(0);
  EXPECT_TRUE(Read(WriteGraph(graph)).ops[0].inputs.empty());
}

TEST(TextFormatTest, EveryStatement) {
  const MemGraph graph = Read(
      "lms-graph 1  # a comment\n"
      "resident weight 1MiB\n"
      "\n"
      "op read type ReadVariableOp floating\n"
      "\tview w of weight\n"
      "  view w2 of w\n"
      "op mul type MatMul cost 12.5 workspace 2KB keep \"too odd\"\r\n"
      "  out y 3KiB\n"
      "  out z 0 resident escapes noswap last-readers keep \"a reason\"\n"
      "  in w2 weight#1\n"
      "resident weight#1 5B\n"
      "op add cost 1e-3\n"
      "  in y y weight#1\n"
      "  in z\n"
      "  forwards y weight#1\n"
      "  overwrites w\n"
      "  after read\n"
      "node n 0.5 7 keep because\n"
      "edge add2 n\n"
      "op add2\n"
      "  out x 1",
      /*sort=*/true);
  ASSERT_EQ(graph.ops.size(), 5u);
  EXPECT_EQ(graph.ops[0].name, "read");
  EXPECT_FALSE(graph.ops[0].anchor);
  EXPECT_TRUE(graph.ops[0].recomputable);
  EXPECT_EQ(graph.ops[1].name, "add2");
  const MemOp& mul = graph.ops[2];
  EXPECT_EQ(mul.type, "MatMul");
  EXPECT_EQ(mul.cost_us, 12.5);
  EXPECT_EQ(mul.workspace_bytes, 2000);
  EXPECT_FALSE(mul.recomputable);
  EXPECT_EQ(mul.keep_reason, "too odd");
  EXPECT_TRUE(mul.anchor);
  EXPECT_EQ(mul.deps, std::vector<OpId>{0});  // the alias is there from then on
  EXPECT_EQ(mul.inputs, (std::vector<BufferId>{0, 1}));
  EXPECT_EQ(graph.buffers[0].bytes, 1 << 20);
  EXPECT_EQ(graph.buffers[1].bytes, 5);
  const MemBuffer& y = graph.buffers[mul.outputs[0]];
  EXPECT_EQ(y.bytes, 3072);
  EXPECT_FALSE(y.evictable);  // its op may not run again
  EXPECT_EQ(y.keep_reason, "too odd");
  const MemBuffer& z = graph.buffers[mul.outputs[1]];
  EXPECT_TRUE(z.resident && z.escapes && z.no_more_readers && !z.swappable && !z.evictable);
  EXPECT_EQ(z.keep_reason, "a reason");
  const MemOp& n = graph.ops[3];
  EXPECT_EQ(n.name, "n");
  EXPECT_EQ(n.cost_us, 0.5);
  EXPECT_EQ(graph.buffers[n.outputs[0]].name, "n");
  EXPECT_EQ(graph.buffers[n.outputs[0]].bytes, 7);
  EXPECT_EQ(graph.buffers[n.outputs[0]].keep_reason, "because");
  EXPECT_EQ(n.inputs, graph.ops[1].outputs);
  const MemOp& add = graph.ops[4];
  EXPECT_EQ(add.inputs, (std::vector<BufferId>{mul.outputs[0], 1, mul.outputs[1]}));
  EXPECT_EQ(add.forwardable, std::vector<BufferId>{mul.outputs[0]});  // a resident one gives nothing up
  EXPECT_EQ(add.deps, (std::vector<OpId>{0, 2}));
  EXPECT_EQ(graph.buffers[0].overwritten_by, std::vector<OpId>{4});
}

TEST(TextFormatTest, WithoutSortingTheOrderStays) {
  const std::string text =
      "lms-graph 1\n"
      "node a 1 1\nnode b 1 1\nnode c 1 1\nnode d 1 1\n"
      "edge a b\nedge b c\nedge a d\n";
  EXPECT_EQ(Read(text).ops[2].name, "c");
  EXPECT_EQ(Read(text, true).ops[2].name, "d");  // ready before c: first come, first served
}

TEST(TextFormatTest, ErrorsHaveALineAndAReason) {
  const std::pair<const char*, const char*> kCases[] = {

      {"frob x\n", "g:2: unknown statement \"frob\"; there are"},
      {"\n# c\nresident a\n", "g:4: it must read: resident NAME BYTES"},
      {"resident a many\n", "g:2: \"many\" is no number of bytes"},
      {"resident a -1\n", "g:2: \"-1\" is no number of bytes"},
      {"resident a 1.5KiB\n", "g:2: \"1.5KiB\" is no number of bytes"},
      {"resident a 1kib\n", "g:2: \"1kib\" is no number of bytes"},
      {"resident a 99999999999999999999999\n", "g:2: \"99999999999999999999999\" is no number of bytes"},
      {"resident a 1073741824GiB\nresident b 1\n", "g:3: all sizes together are more than 2^60 bytes"},
      {"op a workspace 1073741824GiB\nresident b 1\n", "g:3: all sizes together are more than 2^60 bytes"},
      {"resident a 1073741825GiB\n", "g:2: \"1073741825GiB\" is no number of bytes"},
      {"resident a 1 escapes\n", "g:2: unknown word \"escapes\"; here may stand: last-readers"},
      {"resident a 1\nresident a 1\n", "g:3: there is a buffer or alias \"a\" already, in line 2"},
      {"op\n", "g:2: it must read: op NAME"},
      {"op a cost\n", "g:2: cost needs a value"},
      {"op a cost 1 cost 2\n", "g:2: cost is given twice"},
      {"op a cost -1\n", "g:2: \"-1\" is no cost"},
      {"op a cost nan\n", "g:2: \"nan\" is no cost"},
      {"op a cost inf\n", "g:2: \"inf\" is no cost"},
      {"op a cost 0x10\n", "g:2: \"0x10\" is no cost"},
      {"op a cost 1e400\n", "g:2: \"1e400\" is no cost"},
      {"op a cost 1,5\n", "g:2: \"1,5\" is no cost"},
      {"op a cost .\n", "g:2: \".\" is no cost"},
      {"op a cost 1e\n", "g:2: \"1e\" is no cost"},
      {"op a cots 1\n", "g:2: unknown word \"cots\"; here may stand: type, cost, workspace, keep, floating"},
      {"op a\n\nop a\n", "g:4: there is an op \"a\" already, in line 2"},
      {"out a 1\n", "g:2: out stands before the first op"},
      {"op a\nout b\n", "g:3: it must read: out BUFFER BYTES"},
      {"op a\nout b 1\nout b 1\n", "g:4: there is a buffer or alias \"b\" already, in line 3"},
      {"op a\nout b 1\nview b of b\n", "g:4: there is a buffer or alias \"b\" already, in line 3"},
      {"op a\nin\n", "g:3: in names nothing"},
      {"op a\nin b\n", "g:3: there is no buffer \"b\""},
      {"op a\nin b\nop c\nout b 1\n", "g:3: \"a\" needs \"b\", which comes only in line 4"},
      {"op a\nout b 1\nin b\n", "g:4: \"a\" would have to wait for itself"},
      {"op a\nafter a\n", "g:3: \"a\" would have to wait for itself"},
      {"op a\nafter b\n", "g:3: there is no op \"b\""},
      {"op a\nafter b\nop b\n", "g:3: \"a\" needs \"b\", which comes only in line 4"},
      {"op a\nview v b\n", "g:3: it must read: view NAME of BUFFER"},
      {"op a\nview v of b\n", "g:3: there is no buffer \"b\""},
      {"op a\nview v of b\nop c\nout b 1\n", "g:3: \"a\" needs \"b\", which comes only in line 4"},
      {"op a\nview v of v\n", "g:3: an alias of itself, through \"v\""},
      {"op a\nout x 1\nop b\nforwards x\n", "g:5: \"b\" does not read \"x\""},
      {"op a\nforwards x\n", "g:3: there is no buffer \"x\""},
      {"op a\noverwrites x\nop b\nout x 1\n", "g:3: \"a\" needs \"x\", which comes only in line 4"},
      {"node a 1\n", "g:2: it must read: node NAME COST BYTES"},
      {"node a x 1\n", "g:2: \"x\" is no cost"},
      {"node a 1 x\n", "g:2: \"x\" is no number of bytes"},
      {"edge a\n", "g:2: it must read: edge FROM TO"},
      {"edge a b\n", "g:2: there is no op \"a\""},
      {"node a 1 1\nedge a b\n", "g:3: there is no op \"b\""},
      {"node a 1 1\nedge a a\n", "g:3: \"a\" would have to wait for itself"},
      {"node a 1 1\nnode b 1 1\nedge b a\n", "g:4: \"a\" needs \"b\", which comes only in line 3"},
      {"op a\nop b\nedge a b\n", "g:4: an edge from \"a\", which makes 0 buffers"},
      {"op \"a\n", "g:2: the quotes are not closed"},
      {"op \"a\\", "g:2: an unknown escape"},
      {"op \"a\\q\"\n", "g:2: an unknown escape"},
      {"op \"a\\x1\"\n", "g:2: an unknown escape"},
      {"op \"a\"b\n", "g:2: no blank after the closing quote"},
      {"op a\"b\n", "g:2: a double quote inside a word"},
      {"op a\rb\n", "g:2: a byte that is no text: write it as \\x0d, in quotes"},
      {"op a\xff\n", "g:2: a byte that is no text: write it as \\xff, in quotes"},
      {"op \"\x7f\"\n", "g:2: a byte that is no text: write it as \\x7f"},
  };
  for (const auto& [rest, problem] : kCases) {
    const std::string found = ProblemAfterHeader(rest);
    EXPECT_EQ(found.substr(0, std::string(problem).size()), problem) << rest << "\n" << found;
  }
  EXPECT_EQ(ProblemAfterHeader(std::string("op a\0b\n", 7)),
            "g:2: a byte that is no text: write it as \\x00, in quotes");
}

TEST(TextFormatTest, TheFirstLineSaysWhatItIs) {
  EXPECT_EQ(Problem(""), "g:1: the text is empty: its first line must be 'lms-graph 1'");
  EXPECT_EQ(Problem("\n# nothing\n"), "g:1: the text is empty: its first line must be 'lms-graph 1'");
  EXPECT_EQ(Problem("lms-plan 1\n"), "g:1: the first line must be 'lms-graph 1', not \"lms-plan\"");
  EXPECT_EQ(Problem("lms-graph\n"), "g:1: the first line must be 'lms-graph 1'");
  EXPECT_EQ(Problem("lms-graph 2\n"), "g:1: version \"2\" of the format is not known, only 1 is");
  EXPECT_TRUE(Read("\xef\xbb\xbflms-graph 1").ops.empty());
}

TEST(TextFormatTest, CirclesAreErrorsWhenSorting) {
  EXPECT_EQ(ProblemAfterHeader("node s 1 1\nnode a 1 1\nnode b 1 1\nedge a b\nedge b a\nedge s a\n", true),
            "g:3: 2 ops, \"a\" among them, wait for each other in a circle");
  EXPECT_EQ(ProblemAfterHeader("op a\nview v of w\nop b\nview w of v\n", true),
            "g:3: an alias of itself, through \"w\"");
}

TEST(TextFormatTest, SizesUpToTheLimit) {
  EXPECT_EQ(ParseTextBytes("1152921504606846976"), kMostTextBytes);
  EXPECT_EQ(ParseTextBytes("1152921504606846977"), std::nullopt);
  EXPECT_EQ(ParseTextBytes("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseTextBytes("1073741824GiB"), kMostTextBytes);
  EXPECT_EQ(ParseTextBytes("0000000000000000000000000000001KB"), 1000);
  EXPECT_EQ(ParseTextBytes("2MB"), 2000000);
  EXPECT_EQ(ParseTextBytes("2GB"), 2000000000);
  EXPECT_EQ(ParseTextBytes("3B"), 3);
  EXPECT_EQ(ParseTextBytes("MiB"), std::nullopt);
  EXPECT_EQ(ParseTextBytes("1 MiB"), std::nullopt);
}

TEST(TextFormatTest, LongNamesAreShortenedInMessages) {
  EXPECT_LT(ProblemAfterHeader("op a\nafter " + std::string(1000000, 'x') + "\n").size(), 200u);
}

TEST(TextFormatTest, AnyBytesAreReadWithoutHarm) {
  Random random(7);
  const std::string good = WriteGraph(RichGraph(3));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (int change = random.Below(6); change >= 0 && !text.empty(); --change) {
      const size_t at = static_cast<size_t>(random.Below(static_cast<int>(text.size())));
      switch (random.Below(4)) {
        case 0:
          text[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          text.erase(at, static_cast<size_t>(random.Below(40)));
          break;
        case 2:
          text.insert(at, text.substr(static_cast<size_t>(random.Below(static_cast<int>(text.size()))), 30));
          break;
        default:
          text.resize(at + 1);
      }
    }
    MemGraph graph;
    const std::string problem = ReadGraph(text, "g", {random.OneIn(2)}, &graph);
    if (!problem.empty()) {
      EXPECT_EQ(problem.rfind("g:", 0), 0u);
      continue;
    }
    ++accepted;
    ASSERT_EQ(graph.Validate(), "");
    ExpectEqual(Read(WriteGraph(graph)), graph);
  }
  EXPECT_GT(accepted, 100);
  std::string noise;
  for (int i = 0; i < 100000; ++i) noise += static_cast<char>(random.Below(256));
  EXPECT_NE(Problem(noise), "");
  EXPECT_NE(ProblemAfterHeader(noise), "");
}

TEST(SlowTextFormatTest, AMillionLines) {
  std::string text = "lms-graph 1\n";
  constexpr int kNodes = 500000;
  for (int i = 0; i < kNodes; ++i) text += "node n" + std::to_string(i) + " 1 1024\n";
  for (int i = 1; i < kNodes; ++i) text += "edge n" + std::to_string(i - 1) + " n" + std::to_string(i) + "\n";
  EXPECT_EQ(Read(text).ops.size(), static_cast<size_t>(kNodes));
  // One op with many outputs, one with many inputs, one long chain of aliases in the wrong order.
  text = "lms-graph 1\nop a\n";
  std::string reads = "op b\nin";
  for (int i = 0; i < 200000; ++i) {
    text += "out b" + std::to_string(i) + " 1\n";
    reads += " b" + std::to_string(i);
  }
  text += reads + "\nop v\n";
  for (int i = 200000; i > 0; --i) text += "view v" + std::to_string(i) + " of v" + std::to_string(i - 1) + "\n";
  text += "view v0 of b0\n";
  MemGraph graph;
  EXPECT_EQ(ReadGraph(text, "g", {true}, &graph), "");
  EXPECT_EQ(graph.ops[1].inputs.size(), 200000u);
}

TEST(TextFormatTest, NumbersAreTheSameInEveryLanguage) {
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (setlocale(LC_NUMERIC, name) != nullptr) break;
  }
  EXPECT_EQ(CostText(1.5), "1.5");
  EXPECT_EQ(ParseTextCost("1.5"), 1.5);
  setlocale(LC_NUMERIC, "C");
  for (const double cost : {0.0, 0.1, 1.0 / 3, 12.5, 1e15, 5e-324, 123456789.123456789}) {
    EXPECT_EQ(ParseTextCost(CostText(cost)), cost);
  }
  EXPECT_EQ(CostText(0.1), "0.1");
}

TEST(TextFormatTest, PlansToo) {
  int steps = 0;
  int swaps = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const MemGraph graph = NormalForm(seed % 2 == 0 ? RandomGraph(seed, 30) : RichGraph(seed));
    const int64_t limit = Simulate(graph, Plan()).peak_bytes * 6 / 10;
    PlannerOptions options{true, true, 2000};
    if (seed % 3 == 0) options.link.out_bytes_per_us = options.link.in_bytes_per_us = 100;
    const Plan plan = PlanForLimit(graph, limit, options).plan;
    const std::string text = WritePlan(graph, plan);
    Plan again;
    ASSERT_EQ(ReadPlan(text, "p", graph, &again), "") << text;
    ASSERT_EQ(again.steps.size(), plan.steps.size());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      EXPECT_EQ(again.steps[i].before, plan.steps[i].before);
      EXPECT_EQ(again.steps[i].op, plan.steps[i].op);
      EXPECT_EQ(again.steps[i].provides, plan.steps[i].provides);
      EXPECT_EQ(again.steps[i].moves, plan.steps[i].moves);
    }
    EXPECT_EQ(WritePlan(graph, again), text);
    steps += static_cast<int>(plan.steps.size());
    swaps += static_cast<int>(plan.swap_ins.size());
  }
  EXPECT_GT(steps, 100);
  EXPECT_GT(swaps, 10);
}

TEST(TextFormatTest, StepsAreSortedAndProvideAllWhereNothingIsSaid) {
  const MemGraph graph = Read(
      "lms-graph 1\n"
      "op a\n out x 1\n out y 1\n out z 1 keep odd\n"
      "op b\n out u 1\n"
      "op c\n in x y u\n"
      "op d\n in x y u\n");
  Plan plan;
  ASSERT_EQ(
      ReadPlan("lms-plan 1\nmove b before c\nrecompute a before d provides y\nrecompute a before c", "p", graph, &plan),
      "");
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[0].op, 0);
  EXPECT_EQ(plan.steps[0].before, 2);
  EXPECT_EQ(plan.steps[0].provides, (std::vector<BufferId>{0, 1}));
  EXPECT_TRUE(plan.steps[1].moves);
  EXPECT_EQ(plan.steps[2].provides, (std::vector<BufferId>{1}));
  EXPECT_EQ(WritePlan(graph, plan),
            "lms-plan 1\nrecompute a before c\nmove b before c\nrecompute a before d provides y\n");
}

TEST(TextFormatTest, SwapsAreSorted) {
  const MemGraph graph = Read("lms-graph 1\nop a\n out x 1\n out y 1\nop b\n out u 1\nop c\n in u\nop d\n in x y\n");
  Plan plan;
  ASSERT_EQ(ReadPlan("lms-plan 1\nswap-in y before d\nswap-out y by b\nswap-in x before d\nswap-out x by b\n", "p",
                     graph, &plan),
            "");
  EXPECT_EQ(ValidatePlan(graph, plan), "");
  EXPECT_EQ(WritePlan(graph, plan),
            "lms-plan 1\nswap-out x by b\nswap-out y by b\nswap-in x before d\nswap-in y before d\n");
  const auto problem = [&](const std::string& text) {
    Plan other;
    const std::string wrong = ReadPlan("lms-plan 1\n" + text, "p", graph, &other);
    return wrong.empty() ? ValidatePlan(graph, other) : wrong;
  };
  EXPECT_EQ(problem("swap-out x\n"), "p:2: it must read: swap-out BUFFER by OP");
  EXPECT_EQ(problem("swap-in x by c\n"), "p:2: it must read: swap-in BUFFER before OP");
  EXPECT_EQ(problem("swap-over x by c\n"),
            "p:2: unknown statement \"swap-over\"; there are recompute, move, swap-out and swap-in");
  EXPECT_EQ(problem("swap-out z by c\n"), "p:2: the graph has no buffer \"z\"");
  EXPECT_EQ(problem("swap-out x by b\nswap-out x by b\n"), "p:3: the same swap as in line 2");
  // What a reader cannot see, but the plan must not have.
  EXPECT_EQ(problem("swap-in x before d\n"), "x would be swapped in, but never out");
  EXPECT_EQ(problem("swap-out x by b\nswap-out x by c\n"), "x would be swapped out twice");
  EXPECT_EQ(problem("swap-out x by c\nswap-in x before b\n"), "x would be swapped in before it is swapped out");
  EXPECT_EQ(problem("swap-out x by a\n"), "x cannot have been swapped out by the op that makes it");
  EXPECT_EQ(problem("swap-out u by c\n"), "");  // which reads it, and is waited for
  EXPECT_EQ(problem("swap-out u by a\n"), "u would be swapped out before it is made");
}

TEST(TextFormatTest, ErrorsInPlans) {
  const MemGraph graph = Read("lms-graph 1\nnode a 1 1\nnode b 1 1\nnode c 1 1\nedge a b\nedge a c\n");
  const auto problem = [&](const std::string& text) {
    Plan plan;
    return ReadPlan(text, "p", graph, &plan);
  };
  EXPECT_EQ(problem("lms-plan 1\n"), "");
  EXPECT_EQ(problem("lms-graph 1\n"), "p:1: the first line must be 'lms-plan 1', not \"lms-graph\"");
  EXPECT_EQ(problem("lms-plan 1\nevict a\n"),
            "p:2: unknown statement \"evict\"; there are recompute, move, swap-out and swap-in");
  const std::string form = "p:2: it must read: recompute OP before OP [provides BUFFER...]";
  EXPECT_EQ(problem("lms-plan 1\nrecompute a\n"), form);
  EXPECT_EQ(problem("lms-plan 1\nrecompute a after c\n"), form);
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before c provides\n"), form);
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before c a\n"), form);
  EXPECT_EQ(problem("lms-plan 1\nrecompute x before c\n"), "p:2: the graph has no op \"x\"");
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before x\n"), "p:2: the graph has no op \"x\"");
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before c provides x\n"), "p:2: the graph has no buffer \"x\"");
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before c provides b\n"), "p:2: \"a\" does not make \"b\"");
  EXPECT_EQ(problem("lms-plan 1\nrecompute a before c\nrecompute a before b\nmove a before c\n"),
            "p:4: the same step as in line 2");
}

}  // namespace
}  // namespace lms
