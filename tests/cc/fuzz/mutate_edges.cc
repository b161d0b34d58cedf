#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tests/cc/fuzz/mutation.h"

namespace lms::fuzz {

using tensorflow::NodeDef;

bool DropNode(Mutation* mutation) {
  if (mutation->graph.node_size() == 0) return false;
  const int at = mutation->random.Below(mutation->graph.node_size());
  mutation->Note("dropped " + mutation->graph.node(at).name());
  mutation->graph.mutable_node()->DeleteSubrange(at, 1);
  return true;
}

bool DropFew(Mutation* mutation) {
  for (int k = 2 + mutation->random.Below(6); k > 0; --k) DropNode(mutation);
  return true;
}

bool DuplicateNode(Mutation* mutation) {
  const NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  const NodeDef copy = *node;
  *mutation->graph.add_node() = copy;
  if (mutation->random.OneIn(2))
    mutation->graph.mutable_node(mutation->graph.node_size() - 1)->set_name(copy.name() + "_copy");
  mutation->Note("duplicated " + copy.name());
  return true;
}

// All that read it go along.
bool RenameNode(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  const std::string old = node->name();
  const std::string name = mutation->Name();
  node->set_name(name);
  for (NodeDef& reader : *mutation->graph.mutable_node()) {
    for (std::string& input : *reader.mutable_input()) {
      if (input == old) input = name;
      if (input == "^" + old) input = "^" + name;
      if (input.rfind(old + ":", 0) == 0) input = name + input.substr(old.size());
    }
  }
  mutation->Note("renamed " + old + " to " + name.substr(0, 40));
  return true;
}

bool RenameInPlace(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  mutation->Note("renamed " + node->name() + " alone");
  node->set_name(mutation->random.OneIn(2) ? mutation->Name() : mutation->Any()->name());
  return true;
}

bool DanglingInput(Mutation* mutation) {
  std::string* input = mutation->AnyInput();
  if (input == nullptr) return false;
  mutation->Note("dangling " + *input);
  *input = mutation->random.OneIn(2) ? "nowhere" : *input + "_x";
  return true;
}

bool OddPort(Mutation* mutation) {
  std::string* input = mutation->AnyInput();
  if (input == nullptr || input->empty()) return false;
  const std::string node = input->substr(0, input->find(':'));
  static const auto* const ports =
      new std::vector<std::string>{":1", ":2", ":7", ":100000", ":2147483647", ":2147483648", ":-1", ":", ":x", ":01"};
  *input = node + (*ports)[mutation->random.Below(static_cast<int>(ports->size()))];
  mutation->Note("port " + *input);
  return true;
}

bool OddInput(Mutation* mutation) {
  std::string* input = mutation->AnyInput();
  if (input == nullptr) return false;
  *input = mutation->Name();
  mutation->Note("odd input");
  return true;
}

bool MisplacedControl(Mutation* mutation) {
  NodeDef* node = mutation->AnyWithInput();
  if (node == nullptr) return false;
  std::string* input = node->mutable_input(mutation->random.Below(node->input_size()));
  *input = mutation->random.OneIn(3) ? "^" + *input : "^" + mutation->Any()->name();
  mutation->Note("misplaced " + *input);
  return true;
}

bool ControlEdge(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  node->add_input("^" + mutation->Any()->name());
  mutation->Note("edge " + node->input(node->input_size() - 1) + " -> " + node->name());
  return true;
}

bool Cycle(Mutation* mutation) {
  NodeDef* node = mutation->AnyWithInput();
  if (node == nullptr) return false;
  // A later node into an earlier one.
  const int later = mutation->graph.node_size() - 1 - mutation->random.Below(std::min(mutation->graph.node_size(), 10));
  *node->mutable_input(mutation->random.Below(node->input_size())) = mutation->graph.node(later).name();
  mutation->Note("cycle by " + node->name());
  return true;
}

bool SelfLoop(Mutation* mutation) {
  NodeDef* node = mutation->AnyWithInput();
  if (node == nullptr) return false;
  if (mutation->random.OneIn(2)) {
    *node->mutable_input(mutation->random.Below(node->input_size())) = node->name();
  } else {
    node->add_input("^" + node->name());
  }
  mutation->Note("self loop at " + node->name());
  return true;
}

bool SwapInputs(Mutation* mutation) {
  std::string* a = mutation->AnyInput();
  std::string* b = mutation->AnyInput();
  if (a == nullptr || b == nullptr) return false;
  std::swap(*a, *b);
  mutation->Note("swapped two inputs");
  return true;
}

bool RewireAny(Mutation* mutation) {
  std::string* input = mutation->AnyInput();
  if (input == nullptr) return false;
  *input = mutation->Any()->name();
  mutation->Note("rewired to " + *input);
  return true;
}

bool DropInput(Mutation* mutation) {
  NodeDef* node = mutation->AnyWithInput();
  if (node == nullptr) return false;
  if (mutation->random.OneIn(3)) {
    node->clear_input();
  } else {
    node->mutable_input()->DeleteSubrange(mutation->random.Below(node->input_size()), 1);
  }
  mutation->Note("input of " + node->name() + " dropped");
  return true;
}

bool AddInput(Mutation* mutation) {
  NodeDef* node = mutation->Any();
  if (node == nullptr) return false;
  const int times = mutation->random.OneIn(20) ? 3000 : 1 + mutation->random.Below(3);
  const std::string input = mutation->Any()->name();
  for (int k = 0; k < times; ++k) node->add_input(input);
  mutation->Note("inputs added to " + node->name());
  return true;
}

bool Shuffle(Mutation* mutation) {
  for (int i = mutation->graph.node_size() - 1; i > 0; --i)
    mutation->graph.mutable_node()->SwapElements(i, mutation->random.Below(i + 1));
  mutation->Note("shuffled");
  return true;
}

}  // namespace lms::fuzz
