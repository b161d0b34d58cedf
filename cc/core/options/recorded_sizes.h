// Sizes that only the run decides (how many rows are kept, how long a text is, how often a loop goes round), as steps
// have shown them, and which of them the next plan is made for.
//
// A plan is made for the largest sizes that were seen. A step that shows one that is larger by more than 1%, as far as
// a step may take more than predicted before it is planned anew, has the next plan made for it: as it is for the first
// kMostExactRaises times, later with room above every size that varies: a quarter where it has only grown, so that
// lengths that grow a little with each step are not planned for in each. Where it has also shrunk, as lengths do that
// are drawn at random, what the largest of n draws leaves on average to the largest of all, (largest - smallest) / n,
// doubled with each further plan, is enough.
//
// Sizes that are too small to matter are not told: nobody plans anew for a scalar that some Python code returns.
//
// Thread-safety: all functions of RecordedSizes; the others are pure.

#ifndef LMS_CC_CORE_OPTIONS_RECORDED_SIZES_H_
#define LMS_CC_CORE_OPTIONS_RECORDED_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/options/recorded_shapes.h"

namespace lms {

inline constexpr int kMostExactRaises = 3;

class RecordedSizes {
 public:
  // A step has made the tensor in this shape. Of a tensor whose rank changes nothing is told, nor of one that has never
  // had `least` elements.
  void Note(const std::string& tensor, const RecordedShape& shape, int64_t least = 0);

  // What the next plan is to be made for, as ParseRecordedSizes() reads it; "": nothing has been seen. It changes only
  // where a size is larger than in the answer before by more than 1%.
  std::string Text();

 private:
  struct Seen {
    RecordedShape least;
    RecordedShape most;
    RecordedShape told;
    RecordedShape last;
    int64_t times = 1;     // that it was made
    bool shrank = false;   // a size has been smaller than the time before
    bool strange = false;  // its rank changes
  };

  std::mutex mutex_;
  std::map<std::string, Seen> seen_;
  bool larger_ = false;  // than what was told
  int raises_ = 0;
  std::string text_;
};

// "a:0=57,2;b:1=;c:trips=12": the sizes of each tensor, nothing for a scalar. False where the text is anything else.
bool ParseRecordedSizes(const std::string& text, RecordedShapes* shapes);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_RECORDED_SIZES_H_
