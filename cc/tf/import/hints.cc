#include "cc/tf/import/hints.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "cc/core/graph/turn.h"
#include "cc/tf/graph/op_traits.h"

namespace lms {
namespace {

constexpr size_t kMostWarnings = 20;
constexpr char kComposition[] = "/unary_ops_composition";  // what Grappler puts in the place of a row of such ops
constexpr int64_t kWorthSaying = 1024;                     // smaller tensors of a region are not looked at

std::vector<std::string> Split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Hint ParseKind(const std::string& kind) {
  if (kind == "keep") return Hint::kKeep;
  if (kind == "recompute") return Hint::kRecompute;
  return kind == "swap" ? Hint::kSwap : Hint::kNone;
}

// "conv_1" is "conv", made unique.
bool IsNumbered(std::string_view part, std::string_view name) {
  if (part.size() < name.size() + 2 || part.substr(0, name.size()) != name || part[name.size()] != '_') return false;
  const std::string_view number = part.substr(name.size() + 1);
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "3,17" as numbers.
std::set<int> Numbers(const std::string& text) {
  std::set<int> numbers;
  for (const std::string& part : Split(text, ',')) {
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc() && end == part.data() + part.size()) numbers.insert(number);
  }
  return numbers;
}

bool OfGradients(const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part == "gradient_tape" || part == "gradients" || IsNumbered(part, "gradient_tape") ||
           IsNumbered(part, "gradients");
  });
}

struct Model {
  std::string name;         // "": any
  std::set<int> arguments;  // that are its variables; none: not known
};

struct Layer {
  HintFrame frame;
  int model = 0;
  std::vector<std::string> path;  // one name, or those of the layers around it in front
};

bool HasPath(const std::vector<std::string>& parts, size_t from, const std::vector<std::string>& path, bool numbered) {
  const auto same = [numbered](const std::string& part, const std::string& name) {
    return numbered ? IsNumbered(part, name) : part == name;
  };
  return std::search(parts.begin() + static_cast<std::ptrdiff_t>(from), parts.end() - 1, path.begin(), path.end(),
                     same) != parts.end() - 1;
}

// The scopes of models in a graph: whose are they?
class Scopes {
 public:
  Scopes(const tensorflow::GraphDef& graph, const std::vector<Model>& models) : models_(models) {
    if (std::none_of(models.begin(), models.end(), [](const Model& model) { return !model.arguments.empty(); })) return;
    for (const tensorflow::NodeDef& node : graph.node()) nodes_.emplace(node.name(), &node);
    for (const tensorflow::NodeDef& node : graph.node()) {
      for (const std::string& input : node.input()) {
        const int argument = VariableOf(input);
        if (argument >= 0) Note(node.name(), argument);
      }
    }
  }

  // Is a node with such parts in the layer of the model? Scopes of Keras carry a number each, or none of them does.
  bool InLayer(const std::vector<std::string>& parts, const Layer& layer) {
    const Model& model = models_[layer.model];
    if (model.name.empty()) return HasPath(parts, 0, layer.path, false) || HasPath(parts, 0, layer.path, true);
    std::string scope;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      scope += (i == 0 ? "" : "/") + parts[i];
      const bool numbered = IsNumbered(parts[i], model.name);
      if (!numbered && parts[i] != model.name) continue;
      if (!HasPath(parts, i + 1, layer.path, numbered) || IsAnothers(scope, model)) continue;
      if (!Decided(scope, model)) claimed_[scope].insert(model.name);
      return true;
    }
    return false;
  }

  std::vector<std::string> Warnings() const {
    std::vector<std::string> warnings;
    for (const auto& [scope, names] : claimed_) {
      if (names.size() < 2) continue;
      std::string text = "hint_layers: what is computed in " + scope + " may be";
      for (const std::string& name : names) text += (name == *names.begin() ? " of the model " : " or of ") + name;
      warnings.push_back(text + ", and no variable tells: the hints of each hold for it");
    }
    return warnings;
  }

 private:
  static constexpr int kMostSteps = 100;  // from a read to the argument

  // The number of the argument that is the variable which an input hands on; -1: it is none.
  int VariableOf(std::string_view input) const {
    for (int steps = 0; steps < kMostSteps; ++steps) {
      const auto found = nodes_.find(input.substr(0, input.find(':')));
      if (found == nodes_.end()) return -1;
      const tensorflow::NodeDef& node = *found->second;
      if (node.op() == "_Arg") {
        const auto type = node.attr().find("T");
        const auto index = node.attr().find("index");
        const bool variable = type != node.attr().end() && type->second.type() == tensorflow::DT_RESOURCE;
        return variable && index != node.attr().end() ? static_cast<int>(index->second.i()) : -1;
      }
      if (!IsPassThrough(node) && node.op() != "Enter" && node.op() != "Switch") return -1;
      if (node.input_size() == 0) return -1;
      input = node.input(0);
    }
    return -1;
  }

  // The node reads the variable: for each scope around it that may be a model's.
  void Note(const std::string& name, int argument) {
    size_t begin = 0;
    for (size_t end = name.find('/'); end != std::string::npos; end = name.find('/', begin)) {
      const std::string_view part = std::string_view(name).substr(begin, end - begin);
      const bool any = std::any_of(models_.begin(), models_.end(), [part](const Model& model) {
        return part == model.name || IsNumbered(part, model.name);
      });
      if (any) reads_[name.substr(0, end)].insert(argument);
      begin = end + 1;
    }
  }

  bool Decided(const std::string& scope, const Model& model) const {
    return !model.arguments.empty() && reads_.count(scope) != 0;
  }

  bool IsAnothers(const std::string& scope, const Model& model) const {
    if (!Decided(scope, model)) return false;
    const std::set<int>& reads = reads_.at(scope);
    return std::none_of(reads.begin(), reads.end(), [&model](int read) { return model.arguments.count(read) != 0; });
  }

  const std::vector<Model>& models_;
  std::unordered_map<std::string_view, const tensorflow::NodeDef*> nodes_;
  std::unordered_map<std::string, std::set<int>> reads_;  // by scope
  std::map<std::string, std::set<std::string>> claimed_;  // by scope: names of models, where no variable tells
};

bool Contains(const std::vector<int>& list, int id) { return std::find(list.begin(), list.end(), id) != list.end(); }

// The type, or one that a later pass has made of it and what follows it.
bool IsOfType(const std::string& type, const std::vector<std::string>& types) {
  return std::any_of(types.begin(), types.end(), [&type](const std::string& wanted) {
    return type == wanted || type == "_Fused" + wanted || type == "_" + wanted;
  });
}

}  // namespace

const char* HintName(Hint hint) {
  switch (hint) {
    case Hint::kKeep:
      return "keep";
    case Hint::kRecompute:
      return "recompute";
    case Hint::kSwap:
      return "swap";
    case Hint::kNone:
      break;
  }
  return "";
}

int HintMarks::Intern(HintFrame frame) {
  std::string key = std::to_string(static_cast<int>(frame.form)) + "|" + HintName(frame.hint) + "|" + frame.id + "|" +
                    std::to_string(frame.port) + "|" + frame.where;
  for (const std::string& op : frame.ops) key += "|" + op;
  const auto [at, is_new] = ids_.emplace(std::move(key), static_cast<int>(frames_.size()));
  if (is_new) frames_.push_back(std::move(frame));
  return at->second;
}

std::vector<int> HintMarks::ReadFrames(const std::string& text) {
  std::vector<int> ids;
  for (const std::string& part : Split(text, ';')) {
    const std::vector<std::string> fields = Split(part, '|');
    if (fields.size() != 5 || ParseKind(fields[1]) == Hint::kNone) continue;
    HintFrame frame;
    frame.hint = ParseKind(fields[1]);
    frame.id = fields[2];
    frame.where = fields[4];
    if (fields[0] == "region") {
      frame.form = HintForm::kRegion;
      if (!fields[3].empty()) frame.ops = Split(fields[3], ',');
    } else if (fields[0] == "tensor" || fields[0] == "checkpoint") {
      frame.form = fields[0] == "tensor" ? HintForm::kTensor : HintForm::kCheckpoint;
      for (const char c : fields[3].substr(0, 6)) {
        if (c >= '0' && c <= '9') frame.port = 10 * frame.port + (c - '0');
      }
    } else {
      continue;
    }
    ids.push_back(Intern(std::move(frame)));
  }
  return ids;
}

HintMarks::HintMarks(const tensorflow::GraphDef& graph, const std::string& named) : of_node_(graph.node_size()) {
  std::unordered_map<std::string, std::vector<int>> nodes;
  std::unordered_map<std::string, std::vector<int>> calls;
  std::vector<Layer> layers;
  std::vector<Model> models;
  for (const std::string& line : Split(named, '\n')) {
    const std::vector<std::string> fields = Split(line, '\t');
    if (fields.size() == 3 && fields[0] == "node") nodes[fields[1]] = ReadFrames(fields[2]);
    if (fields.size() == 3 && fields[0] == "call") calls[fields[1]] = ReadFrames(fields[2]);
    if (fields.size() == 3 && fields[0] == "model") models.push_back({fields[1], Numbers(fields[2])});
    if (fields.size() != 7 || fields[0] != "layer" || fields[6].empty()) continue;
    Layer layer;
    layer.frame.hint = ParseKind(fields[2]);
    if (layer.frame.hint == Hint::kNone) continue;
    layer.frame.form = fields[1] == "leaf"         ? HintForm::kLeaf
                       : fields[1] == "checkpoint" ? HintForm::kCheckpointLayer
                                                   : HintForm::kRegion;
    if (!fields[3].empty()) layer.frame.ops = Split(fields[3], ',');
    layer.frame.where = fields[4];
    layer.frame.id = fields[4];
    // Each block keeps its own results.
    if (layer.frame.form != HintForm::kLeaf) layer.frame.id += " " + fields[6];
    if (models.empty() || models.back().name != fields[5]) models.push_back({fields[5], {}});
    layer.model = static_cast<int>(models.size()) - 1;
    layer.path = Split(fields[6], '/');
    layers.push_back(std::move(layer));
  }
  Scopes scopes(graph, models);
  for (int n = 0; n < graph.node_size(); ++n) {
    const tensorflow::NodeDef& node = graph.node(n);
    std::vector<int>& own = of_node_[n];
    if (!layers.empty()) {
      const std::vector<std::string> parts = Split(node.name(), '/');
      if (!OfGradients(parts)) {
        for (const Layer& layer : layers) {
          if (scopes.InLayer(parts, layer)) own.push_back(Intern(layer.frame));
        }
      }
    }
    if (!calls.empty()) {
      for (size_t end = node.name().find('/'); end != std::string::npos; end = node.name().find('/', end + 1)) {
        const auto call = calls.find(node.name().substr(0, end));
        if (call != calls.end()) own.insert(own.end(), call->second.begin(), call->second.end());
      }
    }
    const auto attr = node.attr().find(kHintAttr);
    if (attr != node.attr().end()) {
      const std::vector<int> ids = ReadFrames(attr->second.s());
      own.insert(own.end(), ids.begin(), ids.end());
    } else if (!nodes.empty()) {
      std::string name = node.name();
      const size_t end = name.rfind('/');
      if (end != std::string::npos && name.compare(end, std::string::npos, kComposition) == 0) name.resize(end);
      const auto known = nodes.find(name);
      if (known != nodes.end()) own.insert(own.end(), known->second.begin(), known->second.end());
    }
    any_ |= !own.empty();
    for (const int id : own) {
      checkpoints_ |= frames_[id].form == HintForm::kCheckpoint || frames_[id].form == HintForm::kCheckpointLayer;
    }
  }
  warnings_ = scopes.Warnings();
  if (warnings_.size() > kMostWarnings) warnings_.resize(kMostWarnings);
}

void Hints::Give(const HintMarks& marks, const tensorflow::GraphDef& graph, bool recompute, bool swap,
                 const std::string& no_swap, ImportedGraph* imported) {
  groups_.clear();
  of_buffer_.clear();
  warnings_ = marks.warnings();
  if (!marks.any()) return;
  MemGraph& mem = imported->graph;
  // Of a buffer: the frame that counts, and the tensor's name where it was named itself.
  struct Wish {
    int frame = -1;
    std::string tensor;
    bool kept_type = false;
  };
  std::vector<Wish> wishes(mem.buffers.size());
  const OpId turn = TurnOf(mem);
  std::vector<std::vector<OpId>> readers(mem.buffers.size());
  for (size_t op = 0; op < mem.ops.size(); ++op) {
    for (const BufferId b : mem.ops[op].inputs) readers[b].push_back(static_cast<OpId>(op));
  }
  // Is the buffer read, in the forward part, outside of what the frame encloses?
  const auto is_result = [&](BufferId b, int frame) {
    return std::any_of(readers[b].begin(), readers[b].end(), [&](OpId reader) {
      const int node = imported->node_of_op[reader];
      return reader <= turn && !Contains(marks.of(node), frame) && !OfGradients(Split(graph.node(node).name(), '/'));
    });
  };
  int checkpoints = -1;  // a frame of them
  for (size_t b = 0; b < mem.buffers.size(); ++b) {
    const MemBuffer& buffer = mem.buffers[b];
    if (buffer.producer == kNone || buffer.resident) continue;
    const int node = imported->node_of_op[buffer.producer];
    const std::vector<int>& frames = marks.of(node);
    for (size_t i = frames.size(); i-- > 0;) {
      const HintFrame& frame = marks.frame(frames[i]);
      if (frame.form == HintForm::kTensor || frame.form == HintForm::kCheckpoint) continue;
      if (frame.form == HintForm::kCheckpointLayer) {
        checkpoints = frames[i];
        if (!is_result(static_cast<BufferId>(b), frames[i])) continue;
      }
      wishes[b].frame = frames[i];
      wishes[b].kept_type = IsOfType(mem.ops[buffer.producer].type, frame.ops);
      if (frame.form == HintForm::kRegion && frame.hint != Hint::kKeep && !wishes[b].kept_type &&
          is_result(static_cast<BufferId>(b), frames[i])) {
        wishes[b].frame = -1;
      }
      break;
    }
  }
  // Tensors by name come on top; what is to be kept by one name is kept.
  std::vector<std::pair<int, std::string>> lost;  // frame, and what to say
  for (const int node : imported->node_of_op) {
    for (const int id : marks.of(node)) {
      const HintFrame& frame = marks.frame(id);
      if (frame.form != HintForm::kTensor && frame.form != HintForm::kCheckpoint) continue;
      if (frame.form == HintForm::kCheckpoint) checkpoints = id;
      const std::string tensor = graph.node(node).name() + ":" + std::to_string(frame.port);
      const std::vector<BufferId>& ports = imported->buffer_of_port[node];
      const BufferId b = static_cast<size_t>(frame.port) < ports.size() ? ports[frame.port] : kNone;
      if (b == kNone || mem.buffers[b].producer == kNone) {
        lost.emplace_back(id, std::string("lms.") + HintName(frame.hint) + " (" + frame.where + "): " + tensor +
                                  " is not made in the step, or on another device");
        continue;
      }
      Wish& wish = wishes[b];
      const bool kept = wish.frame >= 0 && !wish.tensor.empty() && marks.frame(wish.frame).hint == Hint::kKeep;
      if (!kept) wish = {id, tensor, false};
    }
  }
  if (checkpoints >= 0) {
    for (size_t b = 0; b < mem.buffers.size(); ++b) {
      const MemBuffer& buffer = mem.buffers[b];
      if (wishes[b].frame >= 0 || !buffer.evictable || buffer.producer == kNone || buffer.producer > turn) continue;
      wishes[b].frame = checkpoints;
      wishes[b].kept_type = false;
      wishes[b].tensor = "*";
    }
  }
  std::map<std::pair<Hint, std::string>, int> group_ids;
  const auto warn = [&](std::string text) {
    if (warnings_.size() < kMostWarnings) warnings_.push_back(std::move(text));
  };
  for (size_t i = 0; i < wishes.size(); ++i) {
    const Wish& wish = wishes[i];
    if (wish.frame < 0) continue;
    const BufferId b = static_cast<BufferId>(i);
    const HintFrame& frame = marks.frame(wish.frame);
    const bool rest = wish.tensor == "*";  // of checkpoints: all else
    const Hint hint = wish.kept_type ? Hint::kKeep : rest ? Hint::kRecompute : frame.hint;
    const std::string where = rest ? "all but the checkpoints" : frame.where;
    const auto [at, is_new] = group_ids.emplace(std::make_pair(hint, where), static_cast<int>(groups_.size()));
    if (is_new) {
      groups_.emplace_back().hint = hint;
      groups_.back().where = where;
    }
    Group& group = groups_[at->second];
    MemBuffer& buffer = mem.buffers[b];
    std::string reason;
    if (hint == Hint::kRecompute && !recompute) {
      reason = "recompute=False";
    } else if (hint == Hint::kRecompute && !buffer.evictable) {
      reason = buffer.keep_reason;
    } else if (hint == Hint::kSwap && !swap) {
      reason = no_swap;
    } else if (hint == Hint::kSwap && !buffer.swappable) {
      reason = buffer.keep_reason.empty() ? "it must not be copied, or swap_include or swap_exclude leave it out"
                                          : buffer.keep_reason;
    }
    const bool named = !wish.tensor.empty() && !rest;
    if (!reason.empty()) {
      if (named || buffer.bytes >= kWorthSaying) {
        ++group.not_followed;
        if (group.why_not.empty()) group.why_not = reason;
      }
      if (named) {
        group.warned = true;
        warn(std::string("lms.") + HintName(hint) + " (" + where + "): " + wish.tensor + " stays as it is: " + reason);
      }
      continue;
    }
    of_buffer_[b] = {at->second, {buffer.evictable, buffer.swappable, buffer.keep_reason}};
    group.buffers.push_back(b);
    buffer.hint = hint;
    buffer.hint_named = named;
    if (hint != Hint::kSwap) buffer.swappable = false;
    if (hint != Hint::kRecompute) {
      buffer.evictable = false;
      if (buffer.keep_reason.empty()) buffer.keep_reason = std::string("hint: ") + HintName(hint);
    }
  }
  for (auto& [id, text] : lost) {
    const auto at = group_ids.find({marks.frame(id).hint, marks.frame(id).where});
    if (at != group_ids.end()) groups_[at->second].warned = true;
    warn(std::move(text));
  }
}

void Hints::Lift(int group, MemGraph* graph) const {
  for (const auto& [b, known] : of_buffer_) {
    if (group >= 0 && known.first != group) continue;
    MemBuffer& buffer = graph->buffers[b];
    buffer.hint = Hint::kNone;
    buffer.hint_named = false;
    buffer.evictable = known.second.evictable;
    buffer.swappable = known.second.swappable;
    buffer.keep_reason = known.second.keep_reason;
  }
}

int Hints::GroupOf(BufferId buffer) const {
  const auto at = of_buffer_.find(buffer);
  return at == of_buffer_.end() ? -1 : at->second.first;
}

}  // namespace lms
