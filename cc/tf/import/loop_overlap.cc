#include "cc/tf/import/loop_overlap.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "cc/tf/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace lms {
namespace {

// That are run, however many a program asks for: it is 10 in TensorFlow, and 32 in Keras.
constexpr int64_t kMostIterations = 256;
constexpr int64_t kMostNodes = int64_t{1} << 22;  // of all iterations

bool IsMerge(const std::string& op) { return op == "Merge" || op == "RefMerge"; }
// Their results are elements of a list, which has the memory already.
bool TakesFromList(const std::string& op) { return op == "TensorListPopBack" || op == "TensorListGetItem"; }

// The nodes of one loop, by numbers of their own, and how they hand on.
class Body {
 public:
  struct Reader {
    int node;
    int port;  // of the node that is read; -1: it is only waited for
  };
  struct Input {
    int node;
    int port;
  };
  struct Node {
    std::vector<Input> inputs;    // data, in order; node -1: there from the start
    std::vector<Reader> readers;  // in the same iteration; of a NextIteration: in the next one
    std::vector<int> ports;       // of each output: how often it is read
    std::vector<int64_t> bytes;   // of each output, 0 where it is its `shares` or no tensor of the device
    std::vector<int> shares;      // of each output: the input whose storage it is, or -1
    int waits_for = 0;
    bool merge = false;
    bool next = false;
    bool forwards = false;  // it may write into an input that nobody else reads
    bool starts = false;    // by what comes from outside
  };

  Body(const ImportState& state, int frame) {
    std::vector<int> number(state.index.size(), -1);
    std::vector<int> members;
    for (const int node : state.loops.NodesIn(frame)) {
      if (!state.index[node].live || state.index[node].frame != frame) continue;
      if (IsEnter(state.Node(node)) || IsExit(state.Node(node))) continue;
      number[node] = static_cast<int>(members.size());
      members.push_back(node);
    }
    nodes.resize(members.size());
    for (size_t i = 0; i < members.size(); ++i) Describe(state, members[i], &nodes[i]);
    for (size_t i = 0; i < members.size(); ++i) Connect(state, members[i], static_cast<int>(i), number);
    for (const Loops::Hold& hold : state.loops.Holds()) {
      if (number[hold.node] >= 0 && number[hold.gate] >= 0) Wait(number[hold.node], number[hold.gate]);
    }
  }

  std::vector<Node> nodes;

 private:
  static void Describe(const ImportState& state, int node, Node* described) {
    const tensorflow::NodeDef& def = state.Node(node);
    const NodeTypes& types = state.types[node];
    described->merge = IsMerge(def.op());
    described->next = IsNextIteration(def);
    described->forwards = MayForwardInput(def.op());
    described->ports.assign(types.outputs.size(), 0);
    for (int port = 0; port < static_cast<int>(types.outputs.size()); ++port) {
      const int shared = IsControlFlow(def.op()) ? 0 : state.SharedInput({node, port});
      described->shares.push_back(shared);
      const bool here = shared < 0 && state.OnDevice(node) && !types.output_on_host[port] &&
                        IsPlain(types.outputs[port]) && !IsVariableRead(def.op()) && !TakesFromList(def.op());
      described->bytes.push_back(here ? std::max<int64_t>(0, state.SizeOf(node, port).bytes) : 0);
    }
  }

  void Connect(const ImportState& state, int node, int to, const std::vector<int>& number) {
    Node& reader = nodes[to];
    for (const TensorRef& input : state.index[node].inputs) {
      const int from = number[input.node];
      reader.inputs.push_back({from, input.port});
      if (from < 0) {
        reader.starts = reader.starts || reader.merge;
        continue;
      }
      if (input.port < static_cast<int>(nodes[from].ports.size())) ++nodes[from].ports[input.port];
      nodes[from].readers.push_back({to, input.port});
      if (!reader.merge) ++reader.waits_for;
    }
    for (const int control : state.index[node].controls) {
      if (number[control] >= 0 && !reader.merge) Wait(number[control], to);
    }
    if (reader.merge) reader.waits_for = 1;  // for one of its inputs
  }

  void Wait(int from, int to) {
    nodes[from].readers.push_back({to, -1});
    ++nodes[to].waits_for;
  }
};

// One run of the executor over some iterations of the loop: as they come, or each after the end of the one before.
class InlineRun {
 public:
  InlineRun(const Body& body, int64_t iterations, bool one_by_one, const Deadline& deadline)
      : nodes_(body.nodes), pace_(deadline), iterations_(iterations), one_by_one_(one_by_one) {
    waiting_.reserve(nodes_.size() * iterations);
    slots_.resize(nodes_.size() * iterations);
    for (int64_t k = 0; k < iterations; ++k) {
      for (const Body::Node& node : nodes_) waiting_.push_back(node.waits_for);
    }
  }

  int64_t Peak() {
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      if (nodes_[node].starts || nodes_[node].waits_for == 0) queue_.push_back({node, 0, -1});
    }
    for (int64_t now = 0; !queue_.empty();) {
      const Ready ready = queue_.front();
      queue_.pop_front();
      Process(ready, now);
      if (!queue_.empty()) continue;
      ++now;
      std::swap(queue_, later_);
    }
    return peak_;
  }

 private:
  struct Ready {
    int node;
    int64_t iteration;
    int arrived;  // the buffer that a Merge hands on
  };
  struct Buffer {
    int64_t bytes;
    int reads;
  };

  size_t At(int node, int64_t iteration) const { return iteration * nodes_.size() + node; }

  int BufferOf(const Body::Input& input, int64_t iteration) const {
    if (input.node < 0) return -1;
    const std::vector<int>& slots = slots_[At(input.node, iteration)];
    return input.port < static_cast<int>(slots.size()) ? slots[input.port] : -1;
  }

  int NewBuffer(int64_t bytes) {
    if (bytes == 0) return -1;
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    buffers_.push_back({bytes, 0});
    return static_cast<int>(buffers_.size()) - 1;
  }

  // The buffer of an input that the node alone has left to read, and that is as large as its result; -1: none.
  int Forwarded(const Body::Node& node, int64_t iteration) const {
    for (const Body::Input& input : node.inputs) {
      const int buffer = BufferOf(input, iteration);
      if (buffer >= 0 && buffers_[buffer].reads == 1 && buffers_[buffer].bytes == node.bytes[0]) return buffer;
    }
    return -1;
  }

  void Read(int buffer) {
    if (buffer >= 0 && --buffers_[buffer].reads == 0) held_ -= buffers_[buffer].bytes;
  }

  void Process(const Ready& ready, int64_t now) {
    pace_.Step(1);
    const Body::Node& node = nodes_[ready.node];
    std::vector<int>& slots = slots_[At(ready.node, ready.iteration)];
    for (size_t port = 0; port < node.ports.size(); ++port) {
      int buffer = -1;
      if (node.merge) {
        buffer = port == 0 ? ready.arrived : -1;
      } else if (node.shares[port] >= 0) {
        const size_t input = node.shares[port];
        buffer = input < node.inputs.size() ? BufferOf(node.inputs[input], ready.iteration) : -1;
      } else {
        buffer = node.forwards && port == 0 ? Forwarded(node, ready.iteration) : -1;
        if (buffer < 0) buffer = NewBuffer(node.bytes[port]);
      }
      // This op has it, too, until it has ended.
      if (buffer >= 0) buffers_[buffer].reads += 1 + ReadsOf(node, port, ready.iteration);
      slots.push_back(buffer);
    }
    for (const int buffer : std::vector<int>(slots)) Read(buffer);
    if (node.merge) {
      Read(ready.arrived);
    } else {
      for (const Body::Input& input : node.inputs) Read(BufferOf(input, ready.iteration));
    }
    const int64_t next = ready.iteration + (node.next ? 1 : 0);
    if (next == iterations_) return;
    std::deque<Ready>& queue = one_by_one_ && next > now ? later_ : queue_;
    for (const Body::Reader& reader : node.readers) {
      if (--waiting_[At(reader.node, next)] != 0) continue;
      const bool hands = nodes_[reader.node].merge && reader.port >= 0;
      queue.push_back({reader.node, next, hands ? slots_[At(ready.node, ready.iteration)][reader.port] : -1});
    }
    // What waits for nothing in an iteration begins with it.
    if (node.next && next > begun_) {
      begun_ = next;
      for (int other = 0; other < static_cast<int>(nodes_.size()); ++other) {
        if (nodes_[other].waits_for == 0) queue.push_back({other, next, -1});
      }
    }
  }

  // What the next iteration would read of the last one, nobody does.
  int ReadsOf(const Body::Node& node, size_t port, int64_t iteration) const {
    return node.next && iteration + 1 == iterations_ ? 0 : node.ports[port];
  }

  const std::vector<Body::Node>& nodes_;
  Pace pace_;
  const int64_t iterations_;
  const bool one_by_one_;
  std::vector<int> waiting_;             // per iteration and node
  std::vector<std::vector<int>> slots_;  // likewise: the buffer of each output, -1 for none
  std::vector<Buffer> buffers_;
  std::deque<Ready> queue_;
  std::deque<Ready> later_;  // of iterations that wait for the end of one
  int64_t begun_ = 0;
  int64_t held_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

int64_t IterationsAtOnce(const ImportState& state, int frame) {
  int64_t parallel = 0;
  for (const int node : state.loops.NodesIn(frame)) {
    if (state.index[node].frame != frame || !state.index[node].live || !IsEnter(state.Node(node))) continue;
    const auto attr = state.Node(node).attr().find("parallel_iterations");
    if (attr != state.Node(node).attr().end()) parallel = std::max<int64_t>(parallel, attr->second.i());
  }
  const int64_t trips = state.lists.Trips(frame);
  return trips >= 0 ? std::min(parallel, trips) : parallel;
}

std::optional<int64_t> InlineOverlap(const ImportState& state, int frame) {
  for (int other = 1; other < state.index.frames(); ++other) {
    if (other != frame && state.index.Within(other, frame)) return std::nullopt;
  }
  const Body body(state, frame);
  const auto most = std::max<int64_t>(2, kMostNodes / std::max<int64_t>(1, static_cast<int64_t>(body.nodes.size())));
  const int64_t iterations = std::min({IterationsAtOnce(state, frame), kMostIterations, most});
  if (iterations < 2) return 0;
  const int64_t together = InlineRun(body, iterations, false, state.deadline).Peak();
  return std::max<int64_t>(0, together - InlineRun(body, iterations, true, state.deadline).Peak());
}

}  // namespace lms
