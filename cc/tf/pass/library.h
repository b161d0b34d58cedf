// The library as a whole, for the Python module: what it was built for, and its registration with TensorFlow.
//
// This header, like all that the module includes, includes nothing of TensorFlow: one module, made for one Python,
// works with the libraries of all TensorFlow versions.

#ifndef LMS_CC_TF_PASS_LIBRARY_H_
#define LMS_CC_TF_PASS_LIBRARY_H_

#include <map>
#include <string>

namespace lms {

// The facts of third_party/library.json.in, by name.
std::map<std::string, std::string> BuildFacts();

// Registers the optimizer, unless that has been done in this process: returns false then.
bool RegisterOptimizer();

// Registers it where nobody has. Is it this copy of the library that works in this process?
bool IsTheOneRegistered();

// The least severity (0: info, 1: warning, 2: error) of what TensorFlow logs from now on; returns what it was, and -1
// where TensorFlow cannot be told.
int SetLeastLogged(int severity);

}  // namespace lms

#endif  // LMS_CC_TF_PASS_LIBRARY_H_
