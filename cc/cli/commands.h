// The commands of lms-core. Each prints to standard output, problems to standard error, and returns the exit status.

#ifndef LMS_CC_CLI_COMMANDS_H_
#define LMS_CC_CLI_COMMANDS_H_

#include "cc/cli/arguments.h"

namespace lms::cli {

enum ExitStatus { kDone = 0, kInfeasible = 1, kBadUsage = 2, kBadFile = 3 };

int RunCommand(const Arguments& arguments);

}  // namespace lms::cli

#endif  // LMS_CC_CLI_COMMANDS_H_
