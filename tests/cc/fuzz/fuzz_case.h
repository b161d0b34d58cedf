// One input of the optimizer, as Grappler would hand it over: a graph, what is fetched and fed, options, devices.
//
// As text it is the graph's text proto below lines of comments that hold the rest, so that a case can be read, cut down
// and edited by hand:
//   # why: words            # fetch: name      # feed: name       # keep: name        # threads: 1
//   # option: name s value  (s, i, f or b)     # cluster: none, cpu, gpu or fake_gpu  # valid: 1   # runnable: 1
// Names and values are escaped as in C.

#ifndef LMS_TESTS_CC_FUZZ_FUZZ_CASE_H_
#define LMS_TESTS_CC_FUZZ_FUZZ_CASE_H_

#include <string>

#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace lms::fuzz {

struct FuzzCase {
  tensorflow::grappler::GrapplerItem item;  // values of feeds stay empty: they follow from their placeholders
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  std::string cluster = "none";
  int threads = 1;        // inter-op
  bool valid = false;     // TensorFlow takes the graph and lms knows no reason to decline it
  bool runnable = false;  // and it runs on CPUs, with the variables that it names
  std::string why;        // what has been done to it
};

std::string ToText(const FuzzCase& fuzz_case);

// False, with the reason in *problem, where the text is none.
bool FromText(const std::string& text, FuzzCase* fuzz_case, std::string* problem);

}  // namespace lms::fuzz

#endif  // LMS_TESTS_CC_FUZZ_FUZZ_CASE_H_
