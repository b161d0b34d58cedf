// Whole files, read and written; "-" is standard input or standard output. Problems are returned as words, "" is none.

#ifndef LMS_CC_CORE_BASE_TEXT_FILE_H_
#define LMS_CC_CORE_BASE_TEXT_FILE_H_

#include <string>

namespace lms {

// Stops with a problem after 2 GiB: no text of ours is longer.
std::string ReadTextFile(const std::string& path, std::string* text);

// Replaces the file.
std::string WriteTextFile(const std::string& path, const std::string& text);

}  // namespace lms

#endif  // LMS_CC_CORE_BASE_TEXT_FILE_H_
