// Ops of which the graph does not show everything: that may wait for another op of the step in a way that no edge
// shows, or run functions of their own.

#ifndef LMS_CC_TF_GRAPH_HIDDEN_WAIT_H_
#define LMS_CC_TF_GRAPH_HIDDEN_WAIT_H_

#include <string>

#include "cc/tf/graph/graph_index.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// The first live node that does, in words; "" when there is none. An order enforced between the two could keep both
// waiting for ever. Linear in the graph.
std::string HiddenWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index);

// The same without collective operations whose parts wait for each other in a way that orders of the graph's nodes keep
// to (collectives.h).
std::string UnknownWait(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index);

// The tasks that live nodes run in, in words, where these are several: "/job:ps/replica:0/task:0 and
// /job:worker/replica:0/task:1"; "" else. What is handed from one to another crosses the network, and who holds copies
// of it how long no graph shows. Linear in the graph.
std::string SeveralProcesses(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index);

// The live calls of functions that are neither written out in the graph nor compiled by XLA, in words, with what to do;
// "" where there are none. TensorFlow optimises and runs their bodies apart from the step, without lms. What only
// describes a dataset is no call. Linear in the graph.
std::string UnseenCalls(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index);

}  // namespace lms

#endif  // LMS_CC_TF_GRAPH_HIDDEN_WAIT_H_
