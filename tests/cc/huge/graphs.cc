#include "tests/cc/huge/graphs.h"

#include <algorithm>
#include <utility>

#include "tensorflow/core/framework/function.pb.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms::testing {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::NodeDef;
using tensorflow::grappler::GrapplerItem;

std::string Name(const char* what, int i) { return what + ("_" + std::to_string(i)); }

// One large part, so that a budget relative to the peak is not "too small".
void AddSomething(GraphBuilder* b, std::vector<std::string> inputs = {}) {
  b->Feed("ballast", {1024, 1024});
  std::string y = "ballast";
  for (int i = 0; i < 4; ++i) {
    b->Float(Name("ballast_tanh", i), "Tanh", {y});
    y = Name("ballast_tanh", i);
  }
  for (int i = 3; i >= 0; --i) {
    b->Float(Name("ballast_grad", i), "TanhGrad", {Name("ballast_tanh", i), y});
    y = Name("ballast_grad", i);
  }
  inputs.insert(inputs.begin(), y);
  b->Add("ballast_end", "Identity", inputs, {Float32()});
  b->Fetch("ballast_end");
}

// Layers forward and backward, as TrainChain() has them, with a skip connection over every tenth one.
GrapplerItem Train(int nodes) {
  const int layers = std::max(2, nodes / 9);
  GraphBuilder b;
  b.Feed("x", {16, 16});
  std::vector<std::string> y{"x"};
  for (int i = 0; i < layers; ++i) {
    b.Variable(Name("w", i), {16, 16});
    b.Read(Name("read", i), Name("w", i));
    b.Float(Name("matmul", i), "MatMul", {y.back(), Name("read", i)});
    if (i % 10 == 9) b.Float(Name("skip", i), "AddV2", {Name("matmul", i), y[i - 9]});
    b.Float(Name("tanh", i), "Tanh", {Name(i % 10 == 9 ? "skip" : "matmul", i)});
    y.push_back(Name("tanh", i));
  }
  b.Float("first_grad", "Sigmoid", {y.back()});
  std::string grad = "first_grad";
  for (int i = layers - 1; i >= 0; --i) {
    b.Float(Name("tanh_grad", i), "TanhGrad", {y[i + 1], grad});
    b.Float(Name("weight_grad", i), "MatMul", {y[i], Name("tanh_grad", i)}, {Bool("transpose_a", true)});
    if (i > 0) b.Float(Name("input_grad", i), "MatMul", {Name("tanh_grad", i), Name("read", i)});
    b.Update(Name("update", i), Name("w", i), Name("weight_grad", i));
    grad = Name("input_grad", i);
  }
  b.Fetch("first_grad");
  return b.item();
}

GrapplerItem Elementwise(int nodes) {
  const int layers = nodes / 2;
  GraphBuilder b;
  b.Feed("x", {16, 16});
  for (int i = 0; i < layers; ++i) b.Float(Name("tanh", i), "Tanh", {i == 0 ? "x" : Name("tanh", i - 1)});
  std::string grad = Name("tanh", layers - 1);
  for (int i = layers - 1; i >= 0; --i) {
    b.Float(Name("grad", i), "TanhGrad", {Name("tanh", i), grad});
    grad = Name("grad", i);
  }
  b.Fetch(grad);
  return b.item();
}

// What nobody needs again: no gap at all.
GrapplerItem Chain(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {16, 16});
  for (int i = 0; i < nodes; ++i) b.Float(Name("tanh", i), "Tanh", {i == 0 ? "x" : Name("tanh", i - 1)});
  b.Fetch(Name("tanh", nodes - 1));
  return b.item();
}

// Branches forward and backward from one input into one sum.
GrapplerItem Wide(int nodes) {
  const int branches = nodes / 3;
  GraphBuilder b;
  b.Feed("x", {16, 16});
  std::vector<std::string> ends;
  for (int i = 0; i < branches; ++i) {
    b.Float(Name("a", i), "Tanh", {"x"});
    b.Float(Name("b", i), "Sigmoid", {Name("a", i)});
    b.Float(Name("c", i), "TanhGrad", {Name("a", i), Name("b", i)});
    ends.push_back(Name("c", i));
  }
  b.Float("sum", "AddN", ends, {Int("N", branches)});
  b.Fetch("sum");
  return b.item();
}

// One op with a third of the nodes for outputs, and one with as many inputs; the tensors are read again at the end.
GrapplerItem Fan(int nodes) {
  const int width = nodes / 3;
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {width, 64});
  b.ShapeConstant("axis", {});
  b.Float("split", "Split", {"axis", "x"}, {Int("num_split", width)});
  std::vector<std::string> parts;
  for (int i = 0; i < width; ++i) {
    b.Float(Name("part", i), "Tanh", {i == 0 ? "split" : "split:" + std::to_string(i)});
    parts.push_back(Name("part", i));
  }
  b.Float("packed", "Pack", parts, {Int("N", width), Int("axis", 0)});
  std::vector<std::string> ends;
  for (int i = 0; i < width; ++i) {
    b.Float(Name("end", i), "Sigmoid", {Name("part", i), "^packed"});
    ends.push_back(Name("end", i));
  }
  b.Float("sum", "AddN", ends, {Int("N", width)});
  b.Fetch("sum");
  b.Fetch("packed");
  return b.item();
}

// Sums of three whose terms others read too: their order depends on who holds what.
GrapplerItem Sums(int nodes) {
  const int layers = nodes / 5;
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {32, 32});
  std::string y = "x";
  for (int i = 0; i < layers; ++i) {
    b.Float(Name("p", i), "Tanh", {y});
    b.Float(Name("q", i), "Sigmoid", {y});
    b.Float(Name("r", i), "Mul", {Name("p", i), Name("q", i)});
    b.Float(Name("s", i), "AddN", {Name("p", i), Name("q", i), Name("r", i)}, {Int("N", 3)});
    b.Float(Name("t", i), "AddV2", {Name("s", i), Name("p", i)});
    y = Name("t", i);
  }
  b.Fetch(y);
  return b.item();
}

// One sum of everything through a temporary variable, as Grappler writes it.
GrapplerItem Arrivals(int nodes) {
  const int terms = nodes / 2;
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {16, 16});
  b.Add("var", "TemporaryVariable", {}, {Float32("dtype"), Shape("shape", {16, 16}), Text("var_name", "var")});
  b.Constant("zero", {16, 16});
  b.Float("start", "Assign", {"var", "zero"});
  std::vector<std::string> done{"start"};
  for (int i = 0; i < terms; ++i) {
    b.Float(Name("term", i), "Tanh", {"x"});
    b.Float(Name("add", i), "AssignAdd", {"start", Name("term", i)});
    done.push_back("^" + Name("add", i));
  }
  b.Float("sum", "DestroyTemporaryVariable", done, {Text("var_name", "var")});
  b.Fetch("sum");
  return b.item();
}

// Many sums of four, each through a temporary variable.
GrapplerItem ManyArrivals(int nodes) {
  const int sums = nodes / 12;
  GraphBuilder b;
  b.Feed("x", {32, 32});
  b.Constant("zero", {32, 32});
  std::string y = "x";
  for (int i = 0; i < sums; ++i) {
    b.Add(Name("var", i), "TemporaryVariable", {},
          {Float32("dtype"), Shape("shape", {32, 32}), Text("var_name", Name("var", i))});
    b.Float(Name("start", i), "Assign", {Name("var", i), "zero"});
    std::vector<std::string> done{Name("start", i)};
    for (int k = 0; k < 4; ++k) {
      b.Float(Name("term", 4 * i + k), k % 2 == 0 ? "Tanh" : "Sigmoid", {y});
      b.Float(Name("add", 4 * i + k), "AssignAdd", {Name("start", i), Name("term", 4 * i + k)});
      done.push_back("^" + Name("add", 4 * i + k));
    }
    b.Float(Name("sum", i), "DestroyTemporaryVariable", done, {Text("var_name", Name("var", i))});
    y = Name("sum", i);
  }
  b.Fetch(y);
  return b.item();
}

// Adam over many small variables.
GrapplerItem Adam(int nodes) {
  const int variables = nodes / 8;
  GraphBuilder b;
  b.Feed("x", {128, 128});
  b.Constant("rate", {});
  std::string y = "x";
  for (int i = 0; i < variables; ++i) {
    for (const char* what : {"w", "m", "v"}) b.Variable(Name(what, i), {128, 128});
    b.Read(Name("read", i), Name("w", i));
    b.Float(Name("use", i), "Mul", {y, Name("read", i)});
    b.Float(Name("tanh", i), "Tanh", {Name("use", i)});
    y = Name("tanh", i);
  }
  for (int i = variables - 1; i >= 0; --i) {
    b.Float(Name("grad", i), "TanhGrad", {Name("tanh", i), y});
    b.Float(
        Name("update", i), "ResourceApplyAdam",
        {Name("w", i), Name("m", i), Name("v", i), "rate", "rate", "rate", "rate", "rate", "rate", Name("grad", i)});
    y = Name("grad", i);
  }
  b.Fetch(y);
  return b.item();
}

// One loop with `body` ops in it, after the tensor that is handed in; what comes out of it.
std::string AddLoop(const std::string& prefix, const std::string& input, int body, GraphBuilder* b,
                    const std::string& frame = "") {
  const auto n = [&prefix](const char* name) { return prefix + name; };
  const std::string name = frame.empty() ? prefix : frame;
  const auto enter = [&](const std::string& node, const std::string& from, tensorflow::DataType type, bool constant) {
    b->Add(node, "Enter", {from},
           {Type("T", type), Text("frame_name", name), Bool("is_constant", constant), Int("parallel_iterations", 10)});
  };
  enter(n("i"), "i_start", DT_INT32, false);
  enter(n("bound"), "i_bound", DT_INT32, true);
  enter(n("x"), input, DT_FLOAT, false);
  b->Add(n("i_merge"), "Merge", {n("i"), n("i_next")}, {Type("T", DT_INT32), Int("N", 2)});
  b->Float(n("x_merge"), "Merge", {n("x"), n("x_next")}, {Int("N", 2)});
  b->Add(n("less"), "Less", {n("i_merge"), n("bound")}, {Type("T", DT_INT32)});
  b->Add(n("cond"), "LoopCond", {n("less")});
  b->Add(n("i_switch"), "Switch", {n("i_merge"), n("cond")}, {Type("T", DT_INT32)});
  b->Float(n("x_switch"), "Switch", {n("x_merge"), n("cond")});
  b->Add(n("one"), "Const", {"^" + n("i_switch")}, {Type("dtype", DT_INT32), [] {
                                                      Attr value{"value", {}};
                                                      value.second.mutable_tensor()->set_dtype(DT_INT32);
                                                      value.second.mutable_tensor()->mutable_tensor_shape();
                                                      value.second.mutable_tensor()->add_int_val(1);
                                                      return value;
                                                    }()});
  b->Add(n("i_add"), "AddV2", {n("i_switch") + ":1", n("one")}, {Type("T", DT_INT32)});
  b->Add(n("i_next"), "NextIteration", {n("i_add")}, {Type("T", DT_INT32)});
  std::string y = n("x_switch") + ":1";
  std::vector<std::string> made;
  for (int i = 0; i < body / 2; ++i) {
    const std::string op = prefix + Name("tanh", i);
    b->Float(op, "Tanh", {y});
    made.push_back(y = op);
  }
  for (int i = body / 2 - 1; i >= 0; --i) {
    const std::string op = prefix + Name("grad", i);
    b->Float(op, "TanhGrad", {made[i], y});
    y = op;
  }
  b->Float(n("x_next"), "NextIteration", {y});
  b->Float(n("exit"), "Exit", {n("x_switch")});
  return n("exit");
}

void AddLoopInputs(GraphBuilder* b) {
  b->Feed("x", {64, 64});
  b->ShapeConstant("i_start", {});
  b->ShapeConstant("i_bound", {});
}

GrapplerItem LoopBody(int nodes) {
  GraphBuilder b;
  AddLoopInputs(&b);
  b.Fetch(AddLoop("loop/", "x", nodes, &b));
  return b.item();
}

GrapplerItem Loops(int nodes) {
  GraphBuilder b;
  AddLoopInputs(&b);
  AddSomething(&b);
  std::string y = "x";
  for (int i = 0; i < nodes / 20; ++i) y = AddLoop("loop" + std::to_string(i) + "/", y, 6, &b);
  b.Fetch(y);
  return b.item();
}

// Branches one after the other, of two ops each.
GrapplerItem Conds(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {32, 32});
  b.Add("p", "Placeholder", {}, {Type("dtype", tensorflow::DT_BOOL), Shape("shape", {})});
  b.item().feed.emplace_back("p", tensorflow::Tensor());
  std::string y = "x";
  for (int i = 0; i < nodes / 8; ++i) {
    b.Add(Name("p", i), "LogicalNot", {i == 0 ? "p" : Name("p", i - 1)});
    b.Float(Name("switch", i), "Switch", {y, Name("p", i)});
    for (const int k : {0, 1}) {
      const std::string n = Name("branch", 2 * i + k);
      b.Float(n, "Tanh", {Name("switch", i) + (k == 0 ? "" : ":1")});
      b.Float(n + "_grad", "TanhGrad", {n, n});
    }
    b.Float(Name("merge", i), "Merge", {Name("branch", 2 * i) + "_grad", Name("branch", 2 * i + 1) + "_grad"},
            {Int("N", 2)});
    y = Name("merge", i);
  }
  b.Fetch(y);
  return b.item();
}

// Each branch within the one before.
GrapplerItem NestedConds(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {32, 32});
  b.Add("p", "Placeholder", {}, {Type("dtype", tensorflow::DT_BOOL), Shape("shape", {})});
  b.item().feed.emplace_back("p", tensorflow::Tensor());
  const int depth = nodes / 5;
  std::string y = "x";
  for (int i = 0; i < depth; ++i) {
    b.Add(Name("p", i), "LogicalNot", {i == 0 ? "p" : Name("p", i - 1)});
    b.Float(Name("switch", i), "Switch", {y, Name("p", i)});
    b.Float(Name("inner", i), "Tanh", {Name("switch", i) + ":1"});
    y = Name("inner", i);
  }
  for (int i = depth - 1; i >= 0; --i) {
    b.Float(Name("outer", i), "Sigmoid", {Name("switch", i)});
    b.Float(Name("merge", i), "Merge", {Name("outer", i), y}, {Int("N", 2)});
    y = Name("merge", i);
  }
  b.Fetch(y);
  return b.item();
}

// A third of the nodes before one NoOp, a third after it.
GrapplerItem Gate(int nodes) {
  const int width = nodes / 3;
  GraphBuilder b;
  b.Feed("x", {16, 16});
  std::vector<std::string> waits;
  for (int i = 0; i < width; ++i) {
    b.Float(Name("a", i), "Tanh", {"x"});
    waits.push_back("^" + Name("a", i));
  }
  b.Add("gate", "NoOp", waits);
  for (int i = 0; i < width; ++i) {
    b.Float(Name("b", i), "Sigmoid", {Name("a", i), "^gate"});
    b.Float(Name("c", i), "TanhGrad", {Name("b", i), Name("a", i)});
    b.Fetch(Name("c", i));
  }
  return b.item();
}

// Calls of a library, a function each, and others that call functions in turn.
GrapplerItem Calls(int nodes) {
  const int calls = nodes / 30;
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {64, 64});
  std::string y = "x";
  for (int i = 0; i < calls; ++i) {
    tensorflow::FunctionDef* function = b.item().graph.mutable_library()->add_function();
    function->mutable_signature()->set_name(Name("f", i));
    auto* in = function->mutable_signature()->add_input_arg();
    in->set_name("x");
    in->set_type(DT_FLOAT);
    auto* out = function->mutable_signature()->add_output_arg();
    out->set_name("y");
    out->set_type(DT_FLOAT);
    std::string inner = "x";
    for (int k = 0; k < 28; ++k) {
      NodeDef* node = function->add_node_def();
      node->set_name(Name("tanh", k));
      node->set_op("Tanh");
      node->add_input(inner);
      (*node->mutable_attr())["T"].set_type(DT_FLOAT);
      inner = Name("tanh", k) + ":y:0";
    }
    (*function->mutable_ret())["y"] = inner;
    Attr f{"f", {}};
    f.second.mutable_func()->set_name(Name("f", i));
    b.Add(Name("call", i), "StatefulPartitionedCall", {y}, {Types("Tin", {DT_FLOAT}), Types("Tout", {DT_FLOAT}), f});
    b.Float(Name("grad", i), "TanhGrad", {Name("call", i), y});
    y = Name("call", i);
  }
  b.Fetch(y);
  return b.item();
}

GrapplerItem Constants(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  for (int i = 0; i < nodes; ++i) {
    b.Constant(Name("constant", i), {4});
    b.Fetch(Name("constant", i));
  }
  return b.item();
}

GrapplerItem Resident(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  for (int i = 0; i < nodes / 2; ++i) {
    b.Variable(Name("w", i), {64, 64});
    b.Read(Name("read", i), Name("w", i));
    b.Fetch(Name("read", i));
  }
  return b.item();
}

// Everything is fetched, fed or to be kept.
GrapplerItem Preserved(int nodes) {
  GrapplerItem item = Elementwise(nodes);
  for (int i = 0; i < nodes / 2; ++i) {
    if (i % 3 == 0) item.fetch.push_back(Name("tanh", i));
    if (i % 3 == 1) item.keep_ops.push_back(Name("tanh", i));
  }
  return item;
}

// Views of views, of a variable's read and of a term of a sum.
GrapplerItem Views(int nodes) {
  GraphBuilder b;
  b.Feed("x", {512, 512});
  b.Variable("w", {512, 512});
  b.Read("read", "w");
  b.Float("term", "Tanh", {"x"});
  std::string of_read = "read";
  std::string of_term = "term";
  for (int i = 0; i < nodes / 4; ++i) {
    b.Float(Name("read_view", i), "Identity", {of_read});
    b.Float(Name("term_view", i), "Identity", {of_term});
    of_read = Name("read_view", i);
    of_term = Name("term_view", i);
    if (i % 2 == 0) b.Float(Name("use", i), "Mul", {of_read, of_term});
    if (i % 8 == 0) b.Float(Name("sum", i), "AddN", {of_read, of_term, Name("use", i)}, {Int("N", 3)});
    if (i % 8 == 0) b.Fetch(Name("sum", i));
  }
  b.Float("out", "AddV2", {of_read, of_term});
  b.Update("update", "w", "out");
  b.Fetch("out");
  return b.item();
}

// One variable that everything reads and many ops change.
GrapplerItem Updates(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {128, 128});
  b.Variable("w", {128, 128});
  for (int i = 0; i < nodes / 4; ++i) {
    b.Read(Name("read", i), "w");
    b.Float(Name("use", i), "Mul", {"x", Name("read", i)});
    b.Float(Name("grad", i), "TanhGrad", {Name("use", i), Name("read", i)});
    b.Update(Name("update", i), "w", Name("grad", i));
  }
  return b.item();
}

// Lists of tensors: each is made, pushed to and popped from.
GrapplerItem Lists(int nodes) {
  GraphBuilder b;
  AddSomething(&b);
  b.Feed("x", {32, 32});
  b.ShapeConstant("shape", {32, 32});
  b.ShapeConstant("most", {});
  std::string y = "x";
  for (int i = 0; i < nodes / 6; ++i) {
    b.Add(Name("empty", i), "EmptyTensorList", {"shape", "most"},
          {Float32("element_dtype"), Type("shape_type", DT_INT32)});
    b.Add(Name("push", i), "TensorListPushBack", {Name("empty", i), y}, {Float32("element_dtype")});
    b.Float(Name("tanh", i), "Tanh", {y});
    b.Add(Name("pop", i), "TensorListPopBack", {Name("push", i), "shape"}, {Float32("element_dtype")});
    b.Float(Name("grad", i), "TanhGrad", {Name("pop", i) + ":1", Name("tanh", i)});
    y = Name("grad", i);
  }
  b.Fetch(y);
  return b.item();
}

}  // namespace

const std::vector<HugeGraph>& HugeGraphs() {
  static const auto* const graphs = new std::vector<HugeGraph>{
      {"train", "layers forward and backward, skip connections", Train},
      {"elementwise", "cheap ops forward and backward", Elementwise},
      {"chain", "one op after the other, nothing read twice", Chain},
      {"wide", "branches from one input into one sum", Wide},
      {"fan", "ops with a third of the nodes for outputs or inputs", Fan},
      {"sums", "sums whose terms others read", Sums},
      {"arrivals", "one sum of half the nodes in the order of arrival", Arrivals},
      {"many_arrivals", "sums of four in the order of arrival", ManyArrivals},
      {"adam", "Adam over small variables", Adam},
      {"loop_body", "one loop of all nodes", LoopBody},
      {"loops", "loops one after the other", Loops},
      {"conds", "branches one after the other", Conds},
      {"nested_conds", "each branch within the one before", NestedConds},
      {"gate", "a third of the nodes before one NoOp, the others after it", Gate},
      {"calls", "calls of functions of a library", Calls},
      {"constants", "constants alone, all fetched", Constants},
      {"resident", "variables and their reads, all fetched", Resident},
      {"preserved", "a chain of which each node is fetched or kept", Preserved},
      {"views", "views of views", Views},
      {"updates", "one variable, read and changed by all", Updates},
      {"lists", "tensor lists", Lists},
  };
  return *graphs;
}

}  // namespace lms::testing
