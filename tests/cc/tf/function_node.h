// Nodes of functions that tests make by hand.

#ifndef LMS_TESTS_CC_TF_FUNCTION_NODE_H_
#define LMS_TESTS_CC_TF_FUNCTION_NODE_H_

#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/function.h"

namespace lms::testing {

using FunctionAttrs = std::vector<std::pair<std::string, tensorflow::FunctionDefHelper::AttrValueWrapper>>;

// For FunctionDefHelper::Create(): inputs are arguments or "node:output:number".
inline tensorflow::FunctionDefHelper::Node FunctionNode(const std::string& name, const std::string& op,
                                                        const std::vector<std::string>& inputs,
                                                        const FunctionAttrs& attrs) {
  tensorflow::FunctionDefHelper::Node node;
  node.ret = {name};
  node.op = op;
  node.arg = inputs;
  node.attr = attrs;
  return node;
}

}  // namespace lms::testing

#endif  // LMS_TESTS_CC_TF_FUNCTION_NODE_H_
