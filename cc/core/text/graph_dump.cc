#include "cc/core/text/graph_dump.h"

#include <filesystem>
#include <system_error>

#include "cc/core/base/text_file.h"
#include "cc/core/text/text_format.h"

namespace lms {
namespace {

std::string FileName(const std::string& function, int64_t sequence) {
  constexpr size_t kMost = 150;
  std::string name = function.substr(0, kMost);
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return name + "-" + std::to_string(sequence);
}

}  // namespace

GraphDump::GraphDump(const std::string& directory, const std::string& function, int64_t sequence)
    : directory_(directory), name_(FileName(function, sequence)) {}

std::string GraphDump::Write(const MemGraph& graph) const { return WriteFile(".lmsgraph", WriteGraph(graph)); }

std::string GraphDump::Write(const MemGraph& graph, const Plan& plan) const {
  return WriteFile(".lmsplan", WritePlan(graph, plan));
}

std::string GraphDump::WriteFile(const char* suffix, const std::string& text) const {
  const std::filesystem::path directory(directory_);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return directory_ + ": cannot be made: " + error.message();
  return WriteTextFile((directory / (name_ + suffix)).string(), text);
}

}  // namespace lms
