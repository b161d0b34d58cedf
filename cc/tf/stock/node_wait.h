// An edge by which a rewrite keeps an order that stock TensorFlow has.

#ifndef LMS_CC_TF_STOCK_NODE_WAIT_H_
#define LMS_CC_TF_STOCK_NODE_WAIT_H_

namespace lms {

struct NodeWait {
  int node;
  int waits_for;
};

}  // namespace lms

#endif  // LMS_CC_TF_STOCK_NODE_WAIT_H_
