// How large the dimensions are that a function leaves unknown: what the user said, what the run has shown, what is
// assumed; and which of these holds for which argument. And the small whole numbers that a call gave, from which a
// function may compute sizes: the dense shape of a sparse tensor, a number of rows.
//
// Knows no TensorFlow: an argument is a name and the shapes of its tensors. Python asks here before a function runs
// and the optimizer when it reads the graph, so both come to the same answer. Pure functions, linear in their input.

#ifndef LMS_CC_CORE_OPTIONS_ARGUMENT_SIZES_H_
#define LMS_CC_CORE_OPTIONS_ARGUMENT_SIZES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lms {

// The option unknown_dim.
struct UnknownDim {
  struct Named {
    std::string argument;
    int dim = 0;
    int64_t size = 0;
  };
  int64_t everywhere = 0;  // for all unknown dimensions that have no entry of their own; 0: not given
  std::vector<Named> named;
};

// Reads "64" or "images=64, tokens:1=128, =32": argument, dimension (0 where it is left out), size; an entry without an
// argument is for all others. Returns why it cannot, or nothing.
std::optional<std::string> ParseUnknownDim(const std::string& text, UnknownDim* unknown_dim);

// A size that the run has shown.
struct SeenSize {
  int argument = 0;  // its number
  int tensor = 0;    // which one of an element, where the argument is an iterator; else 0
  int dim = 0;
  int64_t size = 0;
  std::string source;  // for people: "first call"
};

// Reads "first call|0:0=64,0:1=12;Keras batch_size|2.0:0=64": groups of a source and its sizes, each with the number
// of the argument, that of the tensor where it is an iterator's element, the dimension and the size. False where the
// text is anything else.
bool ParseSeenSizes(const std::string& text, std::vector<SeenSize>* sizes);

// What the first call gave for an argument of few whole numbers.
struct SeenValue {
  int argument = 0;  // its number
  std::vector<int64_t> numbers;
};

// Reads "2=1200 1200;5=7": numbers of arguments, and what they were. False where the text is anything else.
bool ParseSeenValues(const std::string& text, std::vector<SeenValue>* values);

using TensorShape = std::vector<int64_t>;  // -1: unknown

struct Argument {
  std::string name;       // of the node in the graph
  std::string user_name;  // of the parameter of the user's function, which may have several tensors; "" where not known
  int number = -1;        // among the function's arguments; -1: it has none
  bool iterator = false;  // its tensors are those of an element
  std::vector<std::optional<TensorShape>> tensors;  // nothing: of unknown rank
};

struct BoundDim {
  size_t argument = 0;  // index into the list that was given
  size_t tensor = 0;
  size_t dim = 0;
  int64_t size = 0;
};

struct ArgumentSizes {
  std::vector<BoundDim> bound;        // one for each unknown dimension of which somebody knew something
  std::vector<BoundDim> open;         // the others, with the size that is assumed
  std::vector<std::string> lines;     // "images:0 = 64 (first call)", one for each unknown dimension
  std::vector<std::string> assumed;   // "images:0": names of the open ones, in their order
  std::vector<std::string> problems;  // entries of unknown_dim that contradict what the function says of itself
  std::vector<std::string> strange;   // names in unknown_dim that this function has not
};

// The user's word comes first, then what was seen, then `assumed`.
ArgumentSizes SizeArguments(const std::vector<Argument>& arguments, const UnknownDim& unknown_dim,
                            const std::vector<SeenSize>& seen, int64_t assumed);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_ARGUMENT_SIZES_H_
