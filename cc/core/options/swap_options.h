// The options that swapping is directed by: parsed one at a time, checked together. Part of options.h's parser.
//
// Pure functions, linear in the text.

#ifndef LMS_CC_CORE_OPTIONS_SWAP_OPTIONS_H_
#define LMS_CC_CORE_OPTIONS_SWAP_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/options/options.h"

namespace lms {

// The specs of the options that ParseSwapOption() knows, by name.
const std::vector<OptionSpec>& SwapOptionSpecs();

// Nothing where no such option is known; otherwise why the value is wrong, "" where it was taken into *options.
std::optional<std::string> ParseSwapOption(const std::string& name, const OptionValue& value, Options* options);

// What is wrong with options that are good one by one: those that contradict each other, each with what to change.
// `map`: what was given.
std::vector<std::string> SwapContradictions(const OptionMap& map, const Options& options);

// The names in a comma-separated list, blanks around them and '/' at their ends left out.
std::vector<std::string> SplitNames(const std::string& list);

// Does the name hold the scope, whole parts between slashes? "call/block/conv" is in "block" and in "block/conv", and
// "block2/conv" is not: functions that are inlined put the name of their call in front.
bool InScope(const std::string& name, const std::string& scope);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_SWAP_OPTIONS_H_
