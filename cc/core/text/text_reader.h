// The tokens of the text formats: lines of words, read and written.
//
// One statement a line; tokens are separated by blanks and tabs; `#` at the start of a token begins a comment. A token
// in double quotes may hold anything, by the escapes \" \\ \n \t \xHH. The text is UTF-8: other bytes and control
// characters stand in quotes as \xHH. Lines end with \n or \r\n, the last one may lack it.
//
// Any bytes may be read: what is wrong is an error with its line, never an exception. Linear in the text.

#ifndef LMS_CC_CORE_TEXT_TEXT_READER_H_
#define LMS_CC_CORE_TEXT_TEXT_READER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lms {

// A sum of bytes up to here, doubled or tripled, still fits 63 bits; no more is read.
inline constexpr int64_t kMostTextBytes = int64_t{1} << 60;
inline constexpr double kMostTextCostUs = 1e15;

// Walks through the statements of a text, which must outlive it. The tokens live as long as the reader.
class TextReader {
 public:
  // `name` is that of the file, for messages.
  TextReader(std::string_view text, std::string name);

  // Reads the first statement, which must be `word` and the version number 1.
  bool ReadHeader(const std::string& word);

  // Goes to the next statement: false at the end of the text, and where something is wrong.
  bool Next();

  const std::vector<std::string_view>& tokens() const { return tokens_; }
  int line() const { return line_; }

  // Notes the first error, "name:line: reason"; always false.
  bool Fail(const std::string& reason) { return FailAt(line_, reason); }
  bool FailAt(int line, const std::string& reason);
  const std::string& error() const { return error_; }

 private:
  bool Tokenize(std::string_view line);
  bool ReadQuoted(std::string_view line, size_t* at);

  std::string_view text_;
  std::string name_;
  size_t next_ = 0;  // where the next line begins
  int line_ = 0;
  std::vector<std::string_view> tokens_;
  std::deque<std::string> unescaped_;  // of the tokens with escapes
  std::string error_;
};

// The number of bytes of the UTF-8 character at the start of the text; 0 where there is none.
size_t Utf8Length(std::string_view text);

// The token as it is written: in quotes where it needs them.
std::string TokenText(std::string_view token);

// For messages: the token in quotes, shortened where it is long.
std::string Shown(std::string_view token);

// "4096", "64MiB": digits and perhaps a unit (B, KiB, MiB, GiB, KB, MB, GB), no more than kMostTextBytes.
std::optional<int64_t> ParseTextBytes(std::string_view token);

// "12.5", "3e-2": at least 0 and at most kMostTextCostUs. Independent of the locale, as is the next.
std::optional<double> ParseTextCost(std::string_view token);

// The shortest text that reads as the same number.
std::string CostText(double cost_us);

}  // namespace lms

#endif  // LMS_CC_CORE_TEXT_TEXT_READER_H_
