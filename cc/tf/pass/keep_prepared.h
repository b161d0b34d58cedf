// The optimizer's side of prepared_steps.h.

#ifndef LMS_CC_TF_PASS_KEEP_PREPARED_H_
#define LMS_CC_TF_PASS_KEEP_PREPARED_H_

#include <string>

#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace lms {

// A graph after all of TensorFlow's own passes, the step's or that of a function which it calls.
struct PreparedItem {
  tensorflow::grappler::GrapplerItem item;  // all but its graph
  // Serialized: thousands of nodes copied in the midst of Grappler's would lie scattered, and whatever is allocated
  // after them, too (docs/tensorflow-loading.md).
  std::string graph;
  tensorflow::ConfigProto config;
  tensorflow::grappler::Cluster* cluster = nullptr;  // whoever plans it owns it
};

// Under the name that the option "_prepare" gives.
void KeepPrepared(const std::string& name, PreparedItem prepared);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_KEEP_PREPARED_H_
