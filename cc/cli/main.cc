// lms-core: see HelpText.

#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "cc/cli/arguments.h"
#include "cc/cli/commands.h"

int main(int argc, char** argv) {
  try {
    lms::cli::Arguments arguments;
    const std::vector<std::string> problems =
        lms::cli::ParseArguments(std::vector<std::string>(argv + 1, argv + argc), &arguments);
    for (const std::string& problem : problems) std::fprintf(stderr, "lms-core: %s\n", problem.c_str());
    if (!problems.empty()) {
      std::fprintf(stderr, "lms-core --help says more\n");
      return lms::cli::kBadUsage;
    }
    if (arguments.help) {
      std::fputs(lms::cli::HelpText().c_str(), stdout);
      return lms::cli::kDone;
    }
    return lms::cli::RunCommand(arguments);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "lms-core: not enough memory for this graph\n");
    return lms::cli::kBadFile;
  }
}
