#include "cc/core/base/text_file.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

namespace lms {
namespace {

std::string Problem(const std::string& path, const char* doing) {
  return path + ": cannot be " + doing + ": " + std::strerror(errno);
}

std::string ReadAll(std::FILE* file, const std::string& path, std::string* text) {
  std::vector<char> part(1 << 16);
  text->clear();
  while (true) {
    const size_t count = std::fread(part.data(), 1, part.size(), file);
    text->append(part.data(), count);
    if (text->size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return path + ": is longer than 2 GiB";
    }
    if (std::ferror(file) != 0) return Problem(path, "read");
    if (std::feof(file) != 0) return "";
  }
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::string* text) {
  if (path == "-") return ReadAll(stdin, "<stdin>", text);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Problem(path, "read");
  std::string problem = ReadAll(file, path, text);
  std::fclose(file);
  return problem;
}

std::string WriteTextFile(const std::string& path, const std::string& text) {
  const bool standard = path == "-";
  std::FILE* const file = standard ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Problem(path, "written");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool flushed = (standard ? std::fflush(file) : std::fclose(file)) == 0;
  return written && flushed ? "" : Problem(standard ? "<stdout>" : path, "written");
}

}  // namespace lms
