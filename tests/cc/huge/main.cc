// What planning huge graphs takes: lms_huge_graphs [--nodes=N] [--budgets=a,b] [--threads=T] [--seconds=S] [--mib=M]
// [--planner_seconds=P] [GRAPH …]
//
// Each graph (graphs.h) goes through the optimizer, with each kind of budget, in a process of its own. A line per run:
// what was decided, the seconds of processor time, the MiB at the highest above what the process had with the graph in
// memory, and the stage that took the longest. Exit status 1 if any took more than the bounds, 10 s and 1024 MiB unless
// given, was ended by a signal, or left a report of an error.

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cc/core/report/report_store.h"
#include "cc/tf/pass/optimizer.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"
#include "tests/cc/huge/graphs.h"

namespace lms::testing {
namespace {

struct Settings {
  int nodes = 300000;
  int threads = 0;  // 0: 1 with "min" and with swaps, else 16
  double seconds = 10;
  double mib = 1024;
  double planner_seconds = 1;
  std::vector<std::string> budgets{"min", "50%", "swap", "fits"};
  std::vector<std::string> graphs;
};

// A field of /proc/self/status, in MiB.
double StatusMib(const std::string& field) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(field + ":", 0) == 0) return std::strtod(line.c_str() + field.size() + 1, nullptr) / 1024;
  }
  return 0;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// In a child: one run, and a line about it. True: within the bounds.
bool RunOne(const Settings& settings, const HugeGraph& graph, const tensorflow::grappler::GrapplerItem& item,
            const std::string& budget) {
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  auto& options = *config.mutable_parameter_map();
  const bool swap = budget == "swap";
  if (budget == "fits") {
    options["memory_budget"].set_i(int64_t{1} << 50);
  } else {
    options["memory_budget"].set_s(swap ? "50%" : budget);
  }
  options["profile"].set_s("none");
  options["planner_seconds"].set_f(static_cast<float>(settings.planner_seconds));
  options["swap"].set_b(swap);
  if (swap) {
    options["swap_to"].set_s("disk");
    options["swap_out_bandwidth"].set_s("500MB");
    options["swap_in_bandwidth"].set_s("500MB");
    options["swap_disk_limit"].set_s("8GiB");
  }
  tensorflow::ConfigProto session;
  session.mutable_graph_options()->mutable_rewrite_options()->set_meta_optimizer_iterations(
      tensorflow::RewriterConfig::ONE);
  const int threads = settings.threads > 0 ? settings.threads : budget == "min" || swap ? 1 : 16;
  session.set_inter_op_parallelism_threads(threads);
  LmsOptimizer optimizer;
  optimizer.InitWithConfig(session, &config).IgnoreError();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const double before_mib = StatusMib("VmRSS");
  const double before = CpuSeconds();
  tensorflow::GraphDef output;
  const absl::Status status = optimizer.Optimize(nullptr, item, &output);
  const double seconds = CpuSeconds() - before;
  const double mib = StatusMib("VmHWM") - before_mib;
  const std::vector<Report> reports = ReportStore::Global().All();
  const Report report = reports.empty() ? Report() : reports.back();
  const bool good =
      seconds <= settings.seconds && mib <= settings.mib && !reports.empty() && report.status != ReportStatus::kFailed;
  std::string stages;
  for (const auto& [stage, took] : report.stage_seconds) {
    if (took < 0.05 * seconds) continue;
    char text[64];
    std::snprintf(text, sizeof(text), " %s %.1f", stage.c_str(), took);
    stages += text;
  }
  std::printf("%-14s %8d  %-5s %3d  %7.2f s %7.0f MiB  %-10s %s |%s | %.180s\n", graph.name, item.graph.node_size(),
              budget.c_str(), threads, seconds, mib, StatusName(report.status), good ? "" : "OVER", stages.c_str(),
              report.reason.c_str());
  return good;
}

int Main(const Settings& settings) {
  bool good = true;
  for (const HugeGraph& graph : HugeGraphs()) {
    const auto& wanted = settings.graphs;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), graph.name) == wanted.end()) continue;
    // The parent makes no graph: what it has freed again would be memory that the child need not ask for.
    const pid_t child = fork();
    if (child == 0) {
      const tensorflow::grappler::GrapplerItem item = graph.make(settings.nodes);
      bool all = true;
      for (const std::string& budget : settings.budgets) {
        const pid_t one = fork();
        if (one == 0) {
          const auto most = static_cast<rlim_t>(2 * settings.seconds + 10);
          const rlimit cpu{most, most};
          setrlimit(RLIMIT_CPU, &cpu);
          const rlimit data{rlim_t{10} << 30, rlim_t{10} << 30};
          setrlimit(RLIMIT_DATA, &data);
          const bool within = RunOne(settings, graph, item, budget);
          std::fflush(stdout);
          _exit(within ? 0 : 1);
        }
        int status = 0;
        waitpid(one, &status, 0);
        all &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (WIFSIGNALED(status)) {
          std::printf("%-14s %8d  %-5s  ended by signal %d\n", graph.name, item.graph.node_size(), budget.c_str(),
                      WTERMSIG(status));
          std::fflush(stdout);
        }
      }
      _exit(all ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::printf("%s\n", good ? "all within the bounds" : "some are OVER the bounds");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace lms::testing

int main(int argc, char** argv) {
  lms::testing::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const std::string& name) -> const char* {
      return argument.rfind("--" + name + "=", 0) == 0 ? argv[i] + name.size() + 3 : nullptr;
    };
    if (const char* nodes = value("nodes")) {
      settings.nodes = static_cast<int>(std::strtol(nodes, nullptr, 10));
    } else if (const char* threads = value("threads")) {
      settings.threads = static_cast<int>(std::strtol(threads, nullptr, 10));
    } else if (const char* seconds = value("seconds")) {
      settings.seconds = std::strtod(seconds, nullptr);
    } else if (const char* mib = value("mib")) {
      settings.mib = std::strtod(mib, nullptr);
    } else if (const char* planner = value("planner_seconds")) {
      settings.planner_seconds = std::strtod(planner, nullptr);
    } else if (const char* budgets = value("budgets")) {
      settings.budgets = lms::testing::Split(budgets);
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    } else {
      settings.graphs.push_back(argument);
    }
  }
  return lms::testing::Main(settings);
}
