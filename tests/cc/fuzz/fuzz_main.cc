// Random, corrupt and hostile graphs through the optimizer:
//   lms_fuzz_graphs [--seconds N] [--graphs N] [--seed S] [--corpus DIR] [--cases DIR] [--replay FILE]
//
// Graphs follow from the seed and their number alone, so one that ends the process can be made again. They run in a
// child, which is started anew after each end; a graph that takes more than 20 seconds of processor time, or two
// minutes, hangs. What fails is cut down (nodes, inputs, options, while it still fails in the same way) and written to
// --cases (by default build/fuzz). --corpus: a directory of serialised GraphDefs (*.pb), which are corrupted like those
// made here; by default the one beside this file, where there is one. --replay: one case, in this process.
//
// The last line of stdout is a JSON object; exit status 1 where there was a finding.

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cc/tf/pass/optimizer.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tests/cc/fuzz/check_case.h"
#include "tests/cc/fuzz/mutate.h"
#include "tests/cc/fuzz/random_step.h"

namespace lms::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kMostProcessorSeconds = 20;
constexpr double kMostSeconds = 1200;  // where it waits for something; a busy machine is no finding
constexpr int kLarge = 100000;
constexpr int kMostFindings = 25;

struct Arguments {
  double seconds = 0;
  int64_t graphs = 0;
  uint64_t seed = 1;
  std::string corpus;
  std::string cases = "build/fuzz";
  std::string replay;
};

enum Kind { kRewritten, kFits, kInfeasible, kSkipped, kFailed, kTimed, kRan, kKinds };
constexpr const char* kKindNames[] = {"rewritten", "fits", "infeasible", "skipped", "failed", "timed", "ran"};

// What the child tells, in memory that outlives it.
struct Shared {
  std::atomic<int64_t> at;    // the graph that runs
  std::atomic<int64_t> done;  // graphs before this one are done
  std::atomic<int64_t> counts[kKinds];
  char problem[4096];  // with the graph at hand, which did not end the process; "": none
};

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string> ReadCorpus(const std::string& directory) {
  std::vector<std::string> graphs;
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".pb") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    graphs.push_back(content.str());
  }
  return graphs;
}

// As Grappler is called for a function: its results are fetched.
FuzzCase FromCorpus(Random* random, const std::vector<std::string>& corpus) {
  FuzzCase fuzz_case;
  fuzz_case.item.id = "step";
  fuzz_case.item.optimization_options().allow_pruning_stateful_and_dataset_ops = false;
  fuzz_case.item.graph.ParseFromString(corpus[random->Below(static_cast<int>(corpus.size()))]);
  for (const auto& node : fuzz_case.item.graph.node()) {
    if (node.op() == "_Retval") fuzz_case.item.fetch.push_back(node.name());
  }
  fuzz_case.why = "a real step";
  fuzz_case.valid = true;
  AddOptions(random, &fuzz_case);
  return fuzz_case;
}

FuzzCase MakeCase(uint64_t seed, int64_t number, const std::vector<std::string>& corpus) {
  Random random(seed * 1000003 + static_cast<uint64_t>(number) * 7919);
  for (int i = 0; i < 4; ++i) random.Next();
  FuzzCase fuzz_case;
  if (number % 2500 == 1250) {
    fuzz_case = random.OneIn(2) ? LongChain(&random, kLarge) : WideSum(&random, kLarge);
  } else if (!corpus.empty() && random.OneIn(24)) {
    fuzz_case = FromCorpus(&random, corpus);
  } else {
    fuzz_case = RandomStep(&random);
  }
  if (random.OneIn(2)) Mutate(&random, &fuzz_case);
  return fuzz_case;
}

void Count(const Checked& checked, Shared* shared) {
  for (int kind = 0; kind < kKinds; ++kind) {
    if (checked.status == kKindNames[kind]) ++shared->counts[kind];
  }
  if (checked.ran) ++shared->counts[kRan];
}

// Does not return.
[[noreturn]] void Child(const Arguments& arguments, int64_t first, int64_t last, double seconds, Shared* shared,
                        const std::vector<std::string>& corpus) {
  // TensorFlow's log, which no setting of ours would come early enough to quiet.
  if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(3);
  const Clock::time_point start = Clock::now();
  for (int64_t number = first; number < last && SecondsSince(start) < seconds; ++number) {
    shared->at = number;
    const FuzzCase fuzz_case = MakeCase(arguments.seed, number, corpus);
    const Checked checked = CheckCase(fuzz_case, /*run=*/true);
    Count(checked, shared);
    std::snprintf(shared->problem, sizeof(shared->problem), "%s", checked.problem.c_str());
    shared->done = number + 1;
    if (!checked.problem.empty()) break;
  }
  std::fflush(nullptr);
  ::_exit(0);
}

double ProcessorSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream words(text.substr(bracket + 1));
  std::string word;
  double ticks = 0;
  for (int i = 3; words >> word && i <= 15; ++i) {
    if (i == 14 || i == 15) ticks += std::strtod(word.c_str(), nullptr);
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// "" where the child ended as it should; else how it ended.
std::string Await(pid_t pid, const std::function<int64_t()>& progress) {
  int64_t last = progress();
  Clock::time_point since = Clock::now();
  double used = ProcessorSeconds(pid);
  while (true) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      if (WIFSIGNALED(status)) return std::string("ends with ") + ::strsignal(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "" : "ends with exit status " + std::to_string(WEXITSTATUS(status));
    }
    if (progress() != last) {
      last = progress();
      since = Clock::now();
      used = ProcessorSeconds(pid);
    }
    if (ProcessorSeconds(pid) - used > kMostProcessorSeconds || SecondsSince(since) > kMostSeconds) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return "hangs";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// What is wrong with the case, in a child; "": nothing. Numbers and names are left out, so that a smaller case that
// fails in the same way has the same words.
std::string Kind(const std::string& problem) {
  const size_t colon = problem.find(':');
  return problem.substr(0, colon);
}

std::string ProblemOf(const FuzzCase& fuzz_case, Shared* shared, const std::string& log) {
  shared->problem[0] = 0;
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!log.empty() && std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(3);
    const Checked checked = CheckCase(fuzz_case, true);
    std::snprintf(shared->problem, sizeof(shared->problem), "%s", checked.problem.c_str());
    std::fflush(nullptr);
    ::_exit(0);
  }
  const std::string end = Await(pid, [] { return int64_t{0}; });
  return end.empty() ? shared->problem : end;
}

// Takes away what the failure does not need, half of the nodes at a time and less.
FuzzCase Smaller(FuzzCase fuzz_case, const std::string& kind, double seconds, Shared* shared) {
  // With fewer nodes it is no valid graph any more.
  if (kind.rfind("a valid graph", 0) == 0) return fuzz_case;
  const Clock::time_point start = Clock::now();
  const auto fails = [&](const FuzzCase& candidate) {
    return SecondsSince(start) < seconds && Kind(ProblemOf(candidate, shared, "/dev/null")) == kind;
  };
  const auto try_one = [&](const std::function<void(FuzzCase*)>& change) {
    FuzzCase candidate = fuzz_case;
    change(&candidate);
    if (!fails(candidate)) return false;
    fuzz_case = std::move(candidate);
    return true;
  };
  try_one([](FuzzCase* c) { c->item.keep_ops.clear(); });
  try_one([](FuzzCase* c) { c->item.graph.clear_library(); });
  try_one([](FuzzCase* c) { c->cluster = "none"; });
  std::vector<std::string> options;
  for (const auto& option : fuzz_case.config.parameter_map()) options.push_back(option.first);
  for (const std::string& option : options) {
    if (option == "planner_seconds" || option == "profile") continue;
    try_one([&](FuzzCase* c) { c->config.mutable_parameter_map()->erase(option); });
  }
  for (int part = std::max(1, fuzz_case.item.graph.node_size() / 2); part > 0; part /= 2) {
    for (int at = 0; at < fuzz_case.item.graph.node_size();) {
      const int count = std::min(part, fuzz_case.item.graph.node_size() - at);
      if (!try_one([&](FuzzCase* c) { c->item.graph.mutable_node()->DeleteSubrange(at, count); })) at += part;
    }
  }
  // Without its waits a step may have other bits each time, for no fault of ours.
  const bool inputs = kind.find("bits") == std::string::npos;
  for (int n = 0; inputs && n < fuzz_case.item.graph.node_size(); ++n) {
    for (int i = fuzz_case.item.graph.node(n).input_size() - 1; i >= 0; --i) {
      try_one([&](FuzzCase* c) { c->item.graph.mutable_node(n)->mutable_input()->DeleteSubrange(i, 1); });
    }
  }
  try_one(Tidy);
  return fuzz_case;
}

class Fuzzer {
 public:
  explicit Fuzzer(const Arguments& arguments) : arguments_(arguments), corpus_(ReadCorpus(arguments.corpus)) {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = memory == MAP_FAILED ? nullptr : new (memory) Shared();
  }

  int Run() {
    if (shared_ == nullptr) {
      std::fprintf(stderr, "there is no memory to share with the child\n");
      return 2;
    }
    const Clock::time_point start = Clock::now();
    const int64_t last = arguments_.graphs > 0 ? arguments_.graphs : INT64_MAX;
    const double most = arguments_.seconds > 0 ? arguments_.seconds : 1e9;
    while (shared_->done < last && SecondsSince(start) < most && findings_ < kMostFindings) {
      // A child per so many graphs: what each leaves behind does not add up.
      const int64_t first = shared_->done;
      Batch(first, std::min(last, first + 4000), most - SecondsSince(start));
      std::fprintf(stderr, "  %lld graphs, %.0f s, %d findings\n", static_cast<long long>(shared_->done.load()),
                   SecondsSince(start), findings_);
    }
    std::printf("{\"graphs\":%lld,", static_cast<long long>(shared_->done.load()));
    for (int kind = 0; kind < kKinds; ++kind) {
      std::printf("\"%s\":%lld,", kKindNames[kind], static_cast<long long>(shared_->counts[kind].load()));
    }
    std::printf("\"findings\":%d,\"seconds\":%.1f,\"seed\":%llu}\n", findings_, SecondsSince(start),
                static_cast<unsigned long long>(arguments_.seed));
    return findings_ == 0 ? 0 : 1;
  }

 private:
  void Batch(int64_t first, int64_t last, double seconds) {
    shared_->at = first;
    shared_->problem[0] = 0;
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid < 0) {
      std::perror("fork");
      std::exit(2);
    }
    if (pid == 0) Child(arguments_, first, last, seconds, shared_, corpus_);
    const std::string end = Await(pid, [this] { return shared_->at.load(); });
    const std::string problem = end.empty() ? std::string(shared_->problem) : end;
    if (problem.empty()) return;
    ++findings_;
    shared_->done = shared_->at + 1;
    Keep(shared_->at, problem);
  }

  void Keep(int64_t number, const std::string& problem) {
    const std::string name = std::to_string(arguments_.seed) + "_" + std::to_string(number);
    fs::create_directories(arguments_.cases);
    const std::string path = (fs::path(arguments_.cases) / (name + ".pbtxt")).string();
    FuzzCase fuzz_case = MakeCase(arguments_.seed, number, corpus_);
    std::ofstream(path) << ToText(fuzz_case);
    const std::string log = path + ".log";
    const std::string again = ProblemOf(fuzz_case, shared_, log);
    std::printf("graph %lld: %s\n  %s\n  %s%s\n", static_cast<long long>(number), problem.c_str(),
                fuzz_case.why.substr(0, 300).c_str(), path.c_str(),
                Kind(again) == Kind(problem) ? "" : (" (alone: " + again + ")").c_str());
    std::fflush(stdout);
    if (again.empty() || ++kept_[Kind(again)] > 6 || fuzz_case.item.graph.node_size() > 5000) return;
    const FuzzCase smaller = Smaller(fuzz_case, Kind(again), 60, shared_);
    std::ofstream(path) << ToText(smaller);
    ProblemOf(smaller, shared_, log);
    std::printf("  cut down from %d to %d nodes\n", fuzz_case.item.graph.node_size(), smaller.item.graph.node_size());
    std::fflush(stdout);
  }

  const Arguments arguments_;
  const std::vector<std::string> corpus_;
  Shared* shared_;
  int findings_ = 0;
  std::map<std::string, int> kept_;
};

int Replay(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  FuzzCase fuzz_case;
  std::string problem;
  if (!FromText(text.str(), &fuzz_case, &problem)) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), problem.c_str());
    return 2;
  }
  const Checked checked = CheckCase(fuzz_case, true);
  std::printf("%s: %s\n%s\n", checked.status.c_str(), checked.reason.c_str(),
              checked.problem.empty() ? "no finding" : checked.problem.c_str());
  return checked.problem.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  arguments.corpus = (fs::path(LMS_FUZZ_DIR) / "corpus").string();
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--seconds") {
      arguments.seconds = std::strtod(value, nullptr);
    } else if (name == "--graphs") {
      arguments.graphs = std::strtoll(value, nullptr, 10);
    } else if (name == "--seed") {
      arguments.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--corpus") {
      arguments.corpus = value;
    } else if (name == "--cases") {
      arguments.cases = value;
    } else if (name == "--replay") {
      arguments.replay = value;
    } else {
      argc = 0;
    }
  }
  if (argc % 2 == 0) {
    std::fprintf(stderr,
                 "usage: lms_fuzz_graphs [--seconds N] [--graphs N] [--seed S] [--corpus DIR] [--cases DIR] "
                 "[--replay FILE]\n");
    return 2;
  }
  ::setenv("LMS_PROFILE_DIR", "/nonexistent", 1);  // whatever this machine's user has measured
  if (!arguments.replay.empty()) return Replay(arguments.replay);
  if (arguments.seconds <= 0 && arguments.graphs <= 0) arguments.seconds = 60;
  return Fuzzer(arguments).Run();
}

}  // namespace
}  // namespace lms::fuzz

int main(int argc, char** argv) { return lms::fuzz::Main(argc, argv); }
