// The command line of lms-core, taken apart: a command, files, options. Every problem is listed.

#ifndef LMS_CC_CLI_ARGUMENTS_H_
#define LMS_CC_CLI_ARGUMENTS_H_

#include <string>
#include <vector>

#include "cc/core/graph/swap_link.h"
#include "cc/core/options/options.h"

namespace lms::cli {

struct Arguments {
  std::string command;  // "" where only help is wanted
  bool help = false;
  std::string graph;
  std::string plan;  // "" where it was left out
  Budget budget;     // kAuto: not given
  double seconds = 1;
  std::string out;
  int points = 10;
  bool json = false;
  bool moves = true;
  bool single_start = false;
  bool recompute = true;
  SwapLink link;  // usable(): --link was given
  bool sort = false;
  bool timeline = false;
};

// Fills *arguments and returns every problem, in words.
std::vector<std::string> ParseArguments(const std::vector<std::string>& words, Arguments* arguments);

// What --help prints.
std::string HelpText();

}  // namespace lms::cli

#endif  // LMS_CC_CLI_ARGUMENTS_H_
