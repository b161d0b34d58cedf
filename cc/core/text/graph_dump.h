// Graphs and plans of real steps, written to a directory for lms-core and for people (option dump_graphs).

#ifndef LMS_CC_CORE_TEXT_GRAPH_DUMP_H_
#define LMS_CC_CORE_TEXT_GRAPH_DUMP_H_

#include <cstdint>
#include <string>

#include "cc/core/graph/mem_graph.h"
#include "cc/core/graph/plan.h"

namespace lms {

// Where the texts of one step go: <directory>/<function>-<sequence>.lmsgraph and .lmsplan. What cannot stand in a
// file's name becomes '_', and a long name is cut.
class GraphDump {
 public:
  GraphDump(const std::string& directory, const std::string& function, int64_t sequence);

  // Each makes the directory where it is missing, replaces a file of the same name, and returns "" or what went wrong.
  std::string Write(const MemGraph& graph) const;
  std::string Write(const MemGraph& graph, const Plan& plan) const;

 private:
  std::string WriteFile(const char* suffix, const std::string& text) const;

  std::string directory_;
  std::string name_;
};

}  // namespace lms

#endif  // LMS_CC_CORE_TEXT_GRAPH_DUMP_H_
