// Graphs read from text.

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/graph/schedule.h"
#include "cc/core/text/text_format.h"
#include "cc/core/text/text_reader.h"

namespace lms {
namespace {

using Tokens = std::vector<std::string_view>;

// Names may be used before they are defined as far as the parser is concerned: they are looked up at the end.
class GraphReader {
 public:
  GraphReader(std::string_view text, const std::string& file, const GraphReadOptions& options)
      : text_(text, file), options_(options) {}

  std::string Run(MemGraph* graph) {
    if (text_.ReadHeader("lms-graph")) {
      while (text_.Next() && ReadStatement()) {
      }
    }
    if (text_.error().empty() && ResolveViews() && ResolveReferences() && ResolveForwards() && Sort()) {
      *graph = NormalForm(std::move(graph_));
    }
    return text_.error();
  }

 private:
  // What a buffer's or an alias's name stands for.
  struct Storage {
    BufferId buffer = kNone;  // kNone: an alias that has not been resolved yet
    OpId maker = kNone;       // the op that allocates it or makes the alias
    std::string_view viewed;  // of an alias: the name behind it
    int line = 0;
  };

  enum class Use { kIn, kForwards, kOverwrites, kAfter, kEdge };

  struct Reference {
    Use use;
    OpId op;  // kNone for an edge
    int line;
    std::string_view name;
    std::string_view to;  // of an edge
  };

  // ---- Statements ----

  bool ReadStatement() {
    const std::string_view word = text_.tokens()[0];
    if (word == "resident") return ReadResident();
    if (word == "op") return ReadOp();
    if (word == "node") return ReadNode();
    if (word == "edge") return ReadEdge();
    if (word != "out" && word != "in" && word != "forwards" && word != "view" && word != "overwrites" &&
        word != "after") {
      return text_.Fail("unknown statement " + Shown(word) +
                        "; there are resident, op, out, in, forwards, view, overwrites, after, node and edge");
    }
    if (graph_.ops.empty()) return text_.Fail(std::string(word) + " stands before the first op");
    if (word == "out") return ReadOut();
    if (word == "view") return ReadView();
    if (word == "in") return ReadList(Use::kIn);
    if (word == "forwards") return ReadList(Use::kForwards);
    if (word == "overwrites") return ReadList(Use::kOverwrites);
    return ReadList(Use::kAfter);
  }

  // An option that may follow a statement's fixed part, with where its value goes.
  struct Option {
    const char* name;
    bool has_value;
    std::string_view value = {};
    bool given = false;
  };

  bool ReadOptions(size_t first, std::vector<Option>* options) {
    const Tokens& t = text_.tokens();
    for (size_t i = first; i < t.size(); ++i) {
      const auto option =
          std::find_if(options->begin(), options->end(), [&](const Option& o) { return t[i] == o.name; });
      if (option == options->end()) return UnknownOption(t[i], *options);
      if (option->given) return text_.Fail(std::string(option->name) + " is given twice");
      option->given = true;
      if (!option->has_value) continue;
      if (++i == t.size()) return text_.Fail(std::string(option->name) + " needs a value");
      option->value = t[i];
    }
    return true;
  }

  bool UnknownOption(std::string_view word, const std::vector<Option>& options) {
    std::string names;
    for (const Option& option : options) names += (names.empty() ? "" : ", ") + std::string(option.name);
    return text_.Fail("unknown word " + Shown(word) + "; here may stand: " + names);
  }

  bool ReadBytes(std::string_view token, int64_t* bytes) {
    const std::optional<int64_t> value = ParseTextBytes(token);
    if (!value)
      return text_.Fail(Shown(token) + " is no number of bytes (digits, perhaps with KiB, MiB, GiB, KB, MB, GB)");
    if (*value > kMostTextBytes - total_bytes_) return text_.Fail("all sizes together are more than 2^60 bytes");
    total_bytes_ += *value;
    *bytes = *value;
    return true;
  }

  bool ReadCost(std::string_view token, double* cost_us) {
    const std::optional<double> value = ParseTextCost(token);
    if (!value) return text_.Fail(Shown(token) + " is no cost (microseconds, at least 0 and at most 1e15)");
    *cost_us = *value;
    return true;
  }

  bool ReadResident() {
    const Tokens& t = text_.tokens();
    if (t.size() < 3) return text_.Fail("it must read: resident NAME BYTES");
    std::vector<Option> options{{"last-readers", false}};
    MemBuffer buffer;
    buffer.resident = true;
    if (!ReadBytes(t[2], &buffer.bytes) || !ReadOptions(3, &options)) return false;
    buffer.no_more_readers = options[0].given;
    return AddBuffer(t[1], std::move(buffer));
  }

  bool ReadOp() {
    const Tokens& t = text_.tokens();
    if (t.size() < 2) return text_.Fail("it must read: op NAME [type T] [cost US] [workspace BYTES] [keep REASON]");
    std::vector<Option> options{
        {"type", true}, {"cost", true}, {"workspace", true}, {"keep", true}, {"floating", false}};
    if (!ReadOptions(2, &options)) return false;
    MemOp op;
    op.type = options[0].value;
    if (options[1].given && !ReadCost(options[1].value, &op.cost_us)) return false;
    if (options[2].given && !ReadBytes(options[2].value, &op.workspace_bytes)) return false;
    op.recomputable = !options[3].given;
    op.keep_reason = options[3].value;
    op.anchor = !options[4].given;
    return AddOp(t[1], std::move(op));
  }

  bool ReadNode() {
    const Tokens& t = text_.tokens();
    if (t.size() < 4) return text_.Fail("it must read: node NAME COST BYTES [keep REASON]");
    std::vector<Option> options{{"keep", true}};
    MemOp op;
    MemBuffer buffer;
    if (!ReadCost(t[2], &op.cost_us) || !ReadBytes(t[3], &buffer.bytes) || !ReadOptions(4, &options)) return false;
    op.recomputable = buffer.evictable = !options[0].given;
    op.keep_reason = buffer.keep_reason = options[0].value;
    return AddOp(t[1], std::move(op)) && AddOutput(t[1], std::move(buffer));
  }

  bool ReadEdge() {
    const Tokens& t = text_.tokens();
    if (t.size() != 3) return text_.Fail("it must read: edge FROM TO");
    references_.push_back({Use::kEdge, kNone, text_.line(), t[1], t[2]});
    return true;
  }

  bool ReadOut() {
    const Tokens& t = text_.tokens();
    if (t.size() < 3) return text_.Fail("it must read: out BUFFER BYTES [keep REASON] [resident] [escapes] …");
    std::vector<Option> options{
        {"keep", true}, {"resident", false}, {"escapes", false}, {"noswap", false}, {"last-readers", false}};
    MemBuffer buffer;
    if (!ReadBytes(t[2], &buffer.bytes) || !ReadOptions(3, &options)) return false;
    buffer.evictable = !options[0].given;
    buffer.keep_reason = options[0].value;
    buffer.resident = options[1].given;
    buffer.escapes = options[2].given;
    buffer.swappable = !options[3].given;
    buffer.no_more_readers = options[4].given;
    return AddOutput(t[1], std::move(buffer));
  }

  bool ReadView() {
    const Tokens& t = text_.tokens();
    if (t.size() != 4 || t[2] != "of") return text_.Fail("it must read: view NAME of BUFFER");
    return AddStorage(t[1], {kNone, LastOp(), t[3], text_.line()});
  }

  bool ReadList(Use use) {
    const Tokens& t = text_.tokens();
    if (t.size() < 2) return text_.Fail(std::string(t[0]) + " names nothing");
    for (size_t i = 1; i < t.size(); ++i) references_.push_back({use, LastOp(), text_.line(), t[i], {}});
    return true;
  }

  // ---- Definitions ----

  OpId LastOp() const { return static_cast<OpId>(graph_.ops.size()) - 1; }

  bool AddOp(std::string_view name, MemOp op) {
    op.name = name;
    graph_.ops.push_back(std::move(op));
    op_lines_.push_back(text_.line());
    const auto [at, is_new] = op_of_name_.emplace(name, LastOp());
    return is_new ||
           text_.Fail("there is an op " + Shown(name) + " already, in line " + std::to_string(op_lines_[at->second]));
  }

  bool AddStorage(std::string_view name, const Storage& storage) {
    const auto [at, is_new] = storage_of_name_.emplace(name, storages_.size());
    storages_.push_back(storage);
    return is_new || text_.Fail("there is a buffer or alias " + Shown(name) + " already, in line " +
                                std::to_string(storages_[at->second].line));
  }

  bool AddBuffer(std::string_view name, MemBuffer buffer) {
    const OpId producer = buffer.producer;
    buffer.name = name;
    graph_.buffers.push_back(std::move(buffer));
    return AddStorage(name, {static_cast<BufferId>(graph_.buffers.size()) - 1, producer, {}, text_.line()});
  }

  bool AddOutput(std::string_view name, MemBuffer buffer) {
    buffer.producer = LastOp();
    graph_.ops.back().outputs.push_back(static_cast<BufferId>(graph_.buffers.size()));
    return AddBuffer(name, std::move(buffer));
  }

  // ---- Names ----

  const Storage* FindStorage(std::string_view name, int line) {
    const auto found = storage_of_name_.find(name);
    if (found != storage_of_name_.end()) return &storages_[found->second];
    text_.FailAt(line, "there is no buffer " + Shown(name));
    return nullptr;
  }

  bool FindOp(std::string_view name, int line, OpId* op) {
    const auto found = op_of_name_.find(name);
    if (found == op_of_name_.end()) return text_.FailAt(line, "there is no op " + Shown(name));
    *op = found->second;
    return true;
  }

  // May `op` need what `maker` makes? Then it waits for it.
  bool Wait(OpId op, OpId maker, std::string_view name, int line) {
    if (maker == kNone) return true;
    if (maker == op) return text_.FailAt(line, Shown(graph_.ops[op].name) + " would have to wait for itself");
    if (maker > op && !options_.sort) {
      return text_.FailAt(line, Shown(graph_.ops[op].name) + " needs " + Shown(name) + ", which comes only in line " +
                                    std::to_string(op_lines_[maker]) +
                                    ": ops must be in execution order, or be sorted (--sort)");
    }
    graph_.ops[op].deps.push_back(maker);
    return true;
  }

  // Each alias stands for a buffer in the end, perhaps through other aliases.
  bool ResolveViews() {
    std::vector<size_t> seen(storages_.size(), storages_.size());  // from which alias each was come by
    std::vector<size_t> path;
    for (size_t start = 0; start < storages_.size(); ++start) {
      path.clear();
      size_t at = start;
      while (storages_[at].buffer == kNone) {
        const Storage& alias = storages_[at];
        if (seen[at] == start) return text_.FailAt(alias.line, "an alias of itself, through " + Shown(alias.viewed));
        seen[at] = start;
        path.push_back(at);
        const Storage* viewed = FindStorage(alias.viewed, alias.line);
        if (viewed == nullptr) return false;
        if (viewed->maker != alias.maker && !Wait(alias.maker, viewed->maker, alias.viewed, alias.line)) return false;
        at = static_cast<size_t>(viewed - storages_.data());
      }
      for (const size_t alias : path) storages_[alias].buffer = storages_[at].buffer;
    }
    return true;
  }

  bool ResolveReferences() {
    for (const Reference& reference : references_) {
      bool good = true;
      switch (reference.use) {
        case Use::kForwards:
          break;
        case Use::kAfter: {
          OpId before = kNone;
          good = FindOp(reference.name, reference.line, &before) &&
                 Wait(reference.op, before, reference.name, reference.line);
          break;
        }
        case Use::kEdge:
          good = ResolveEdge(reference);
          break;
        case Use::kIn:
        case Use::kOverwrites: {
          const Storage* storage = FindStorage(reference.name, reference.line);
          good = storage != nullptr && Touch(reference, *storage);
        }
      }
      if (!good) return false;
    }
    return true;
  }

  bool Touch(const Reference& reference, const Storage& storage) {
    const OpId producer = graph_.buffers[storage.buffer].producer;
    if (!Wait(reference.op, storage.maker, reference.name, reference.line) ||
        !Wait(reference.op, producer, reference.name, reference.line)) {
      return false;
    }
    if (reference.use == Use::kOverwrites) {
      graph_.buffers[storage.buffer].overwritten_by.push_back(reference.op);
    } else {
      graph_.ops[reference.op].inputs.push_back(storage.buffer);
    }
    return true;
  }

  bool ResolveEdge(const Reference& edge) {
    OpId from = kNone;
    OpId to = kNone;
    if (!FindOp(edge.name, edge.line, &from) || !FindOp(edge.to, edge.line, &to)) return false;
    const size_t outputs = graph_.ops[from].outputs.size();
    if (outputs != 1) {
      return text_.FailAt(edge.line, "an edge from " + Shown(edge.name) + ", which makes " + std::to_string(outputs) +
                                         " buffers: name one after 'in' instead");
    }
    graph_.ops[to].inputs.push_back(graph_.ops[from].outputs[0]);
    return Wait(to, from, edge.name, edge.line);
  }

  // Reading the same storage twice, perhaps by two names, is one read. What an op may take over it must read.
  bool ResolveForwards() {
    std::vector<OpId> reader(graph_.buffers.size(), kNone);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      std::vector<BufferId>& inputs = graph_.ops[i].inputs;
      inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                  [&](BufferId b) {
                                    return std::exchange(reader[b], static_cast<OpId>(i)) == static_cast<OpId>(i);
                                  }),
                   inputs.end());
    }
    std::fill(reader.begin(), reader.end(), kNone);
    std::vector<OpId> forwarder(graph_.buffers.size(), kNone);
    OpId last = kNone;
    for (const Reference& reference : references_) {
      if (reference.use != Use::kForwards) continue;
      MemOp& op = graph_.ops[reference.op];
      if (reference.op != last) {
        for (const BufferId b : op.inputs) reader[b] = reference.op;
        last = reference.op;
      }
      const Storage* storage = FindStorage(reference.name, reference.line);
      if (storage == nullptr) return false;
      if (reader[storage->buffer] != reference.op) {
        return text_.FailAt(reference.line, Shown(op.name) + " does not read " + Shown(reference.name) +
                                                ", so it cannot take over its storage");
      }
      if (std::exchange(forwarder[storage->buffer], reference.op) != reference.op) {
        op.forwardable.push_back(storage->buffer);
      }
    }
    return true;
  }

  bool Sort() {
    if (!options_.sort) return true;
    const std::vector<OpId> order = ExecutionOrder(graph_);
    if (order.size() == graph_.ops.size()) {
      graph_ = Reordered(graph_, order);
      return true;
    }
    std::vector<bool> runs(graph_.ops.size(), false);
    for (const OpId op : order) runs[op] = true;
    const size_t stuck = static_cast<size_t>(std::find(runs.begin(), runs.end(), false) - runs.begin());
    return text_.FailAt(op_lines_[stuck], std::to_string(graph_.ops.size() - order.size()) + " ops, " +
                                              Shown(graph_.ops[stuck].name) +
                                              " among them, wait for each other in a circle");
  }

  TextReader text_;
  const GraphReadOptions options_;
  MemGraph graph_;
  int64_t total_bytes_ = 0;
  std::vector<int> op_lines_;
  std::vector<Storage> storages_;
  std::vector<Reference> references_;
  std::unordered_map<std::string_view, OpId> op_of_name_;
  std::unordered_map<std::string_view, size_t> storage_of_name_;
};

}  // namespace

std::string ReadGraph(std::string_view text, const std::string& file, const GraphReadOptions& options,
                      MemGraph* graph) {
  return GraphReader(text, file, options).Run(graph);
}

}  // namespace lms
