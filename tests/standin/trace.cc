#include "tests/standin/trace.h"

#include <cstdio>
#include <map>
#include <mutex>

#include "tests/standin/settings.h"

namespace standin {
namespace {

struct File {
  File() : file(Get().trace.empty() ? nullptr : std::fopen(Get().trace.c_str(), "w")) {
    if (file != nullptr) std::fputs("[\n", file);
  }
  std::FILE* const file;
  std::mutex mutex;
  std::map<const SP_Stream_st*, int> rows;  // guarded by mutex
};

File& TheFile() {
  static File* const file = new File;
  return *file;
}

double Microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

bool Tracing() { return TheFile().file != nullptr; }

// The list is not closed: the viewers do without, and a process that is killed leaves what it wrote.
void Trace(const SP_Stream_st* stream, const std::string& name, Clock::time_point begin, Clock::time_point end) {
  File& file = TheFile();
  const std::lock_guard<std::mutex> lock(file.mutex);
  const int row = file.rows.emplace(stream, static_cast<int>(file.rows.size())).first->second;
  std::fprintf(file.file,
               R"({"ph":"X","pid":0,"tid":%d,"ts":%.1f,"dur":%.1f,"name":"%s"},)"
               "\n",
               row, Microseconds(begin.time_since_epoch()), Microseconds(end - begin), name.c_str());
  std::fflush(file.file);
}

}  // namespace standin
