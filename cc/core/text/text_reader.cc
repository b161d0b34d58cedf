#include "cc/core/text/text_reader.h"

#include <locale.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

namespace lms {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string HexEscape(char c) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

std::string Quoted(std::string_view token) {
  std::string text = "\"";
  for (size_t i = 0; i < token.size();) {
    const char c = token[i];
    const size_t length = Utf8Length(token.substr(i));
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (IsControl(c) || length == 0) {
      text += HexEscape(c);
    } else {
      text.append(token.substr(i, length));
    }
    i += length == 0 ? 1 : length;
  }
  return text + "\"";
}

// Numbers are written with a decimal point whatever the user's language: this thread's locale is "C" meanwhile.
class ClassicLocale {
 public:
  ClassicLocale() : before_(uselocale(Classic())) {}
  ~ClassicLocale() { uselocale(before_); }
  ClassicLocale(const ClassicLocale&) = delete;
  ClassicLocale& operator=(const ClassicLocale&) = delete;

 private:
  static locale_t Classic() {
    static const locale_t classic = newlocale(LC_ALL_MASK, "C", nullptr);
    return classic;
  }
  locale_t before_;
};

// Digits, perhaps with a point in or before them, and perhaps an exponent.
bool IsDecimal(std::string_view text) {
  size_t i = 0;
  size_t digits = 0;
  const auto skip_digits = [&] {
    const size_t first = i;
    while (i < text.size() && IsDigit(text[i])) ++i;
    return i - first;
  };
  digits += skip_digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    digits += skip_digits();
  }
  if (digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (skip_digits() == 0) return false;
  }
  return i == text.size();
}

}  // namespace

TextReader::TextReader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  if (text_.substr(0, 3) == "\xef\xbb\xbf") next_ = 3;  // the mark that some editors put in front
}

bool TextReader::FailAt(int line, const std::string& reason) {
  if (error_.empty()) error_ = name_ + ":" + std::to_string(line) + ": " + reason;
  return false;
}

bool TextReader::ReadHeader(const std::string& word) {
  // So that numbers of lines, ops and buffers fit 32 bits.
  if (text_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return FailAt(1, "the text is longer than 2 GiB");
  }
  if (!Next()) return FailAt(1, "the text is empty: its first line must be '" + word + " 1'");
  if (tokens_[0] != word) return Fail("the first line must be '" + word + " 1', not " + Shown(tokens_[0]));
  if (tokens_.size() != 2) return Fail("the first line must be '" + word + " 1'");
  if (tokens_[1] != "1") return Fail("version " + Shown(tokens_[1]) + " of the format is not known, only 1 is");
  return true;
}

bool TextReader::Next() {
  while (error_.empty() && next_ < text_.size()) {
    size_t end = text_.find('\n', next_);
    if (end == std::string_view::npos) end = text_.size();
    std::string_view line = text_.substr(next_, end - next_);
    next_ = end + 1;
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!Tokenize(line)) return false;
    if (!tokens_.empty()) return true;
  }
  tokens_.clear();
  return false;
}

bool TextReader::Tokenize(std::string_view line) {
  tokens_.clear();
  size_t at = 0;
  while (true) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size() || line[at] == '#') return true;
    if (line[at] == '"') {
      if (!ReadQuoted(line, &at)) return false;
      continue;
    }
    const size_t first = at;
    while (at < line.size() && !IsBlank(line[at])) {
      if (line[at] == '"') return Fail("a double quote inside a word: put the whole word in quotes, with \\\" in it");
      const size_t length = Utf8Length(line.substr(at));
      if (IsControl(line[at]) || length == 0) {
        return Fail("a byte that is no text: write it as " + HexEscape(line[at]) + ", in quotes");
      }
      at += length;
    }
    tokens_.push_back(line.substr(first, at - first));
  }
}

bool TextReader::ReadQuoted(std::string_view line, size_t* at) {
  size_t i = *at + 1;
  const size_t first = i;
  std::string unescaped;
  bool escapes = false;
  for (; i < line.size() && line[i] != '"';) {
    if (line[i] != '\\') {
      const size_t length = Utf8Length(line.substr(i));
      if ((IsControl(line[i]) && line[i] != '\t') || length == 0) {
        return Fail("a byte that is no text: write it as " + HexEscape(line[i]));
      }
      if (escapes) unescaped.append(line.substr(i, length));
      i += length;
      continue;
    }
    if (!escapes) unescaped = line.substr(first, i - first);
    escapes = true;
    const char kind = i + 1 < line.size() ? line[i + 1] : '\0';
    if (kind == '"' || kind == '\\') {
      unescaped += kind;
    } else if (kind == 'n') {
      unescaped += '\n';
    } else if (kind == 't') {
      unescaped += '\t';
    } else if (kind == 'x' && i + 3 < line.size() && HexValue(line[i + 2]) >= 0 && HexValue(line[i + 3]) >= 0) {
      unescaped += static_cast<char>(16 * HexValue(line[i + 2]) + HexValue(line[i + 3]));
      i += 2;
    } else {
      return Fail("an unknown escape: there are \\\" \\\\ \\n \\t and \\xHH");
    }
    i += 2;
  }
  if (i == line.size()) return Fail("the quotes are not closed");
  if (escapes) {
    unescaped_.push_back(std::move(unescaped));
    tokens_.push_back(unescaped_.back());
  } else {
    tokens_.push_back(line.substr(first, i - first));
  }
  *at = i + 1;
  if (*at < line.size() && !IsBlank(line[*at])) return Fail("no blank after the closing quote");
  return true;
}

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  // The second byte's range leaves out what has a shorter form, surrogates, and what is above U+10FFFF.
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (lead < 0xc2 || lead > 0xf4 || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

std::string TokenText(std::string_view token) {
  bool plain = !token.empty();
  for (size_t i = 0; plain && i < token.size();) {
    const size_t length = Utf8Length(token.substr(i));
    plain = length > 0 && !IsControl(token[i]) && token[i] != ' ' && token[i] != '#' && token[i] != '"';
    i += length;
  }
  return plain ? std::string(token) : Quoted(token);
}

std::string Shown(std::string_view token) {
  constexpr size_t kMost = 80;
  if (token.size() <= kMost) return Quoted(token);
  size_t end = 0;
  while (end < kMost) end += std::max<size_t>(1, Utf8Length(token.substr(end)));
  return Quoted(token.substr(0, end)) + "…";
}

std::optional<int64_t> ParseTextBytes(std::string_view token) {
  int64_t value = 0;
  size_t digits = 0;
  for (; digits < token.size() && IsDigit(token[digits]); ++digits) {
    const int digit = token[digits] - '0';
    if (value > (kMostTextBytes - digit) / 10) return std::nullopt;
    value = 10 * value + digit;
  }
  if (digits == 0) return std::nullopt;
  static constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"", 1},          {"B", 1},     {"KiB", 1 << 10},    {"MiB", 1 << 20},
      {"GiB", 1 << 30}, {"KB", 1000}, {"MB", 1000 * 1000}, {"GB", 1000 * 1000 * 1000}};
  for (const auto& [name, bytes] : kUnits) {
    if (token.substr(digits) != name) continue;
    if (value > kMostTextBytes / bytes) return std::nullopt;
    return value * bytes;
  }
  return std::nullopt;
}

std::optional<double> ParseTextCost(std::string_view token) {
  if (!IsDecimal(token)) return std::nullopt;
  const ClassicLocale locale;
  const double value = std::strtod(std::string(token).c_str(), nullptr);
  if (!(value >= 0 && value <= kMostTextCostUs)) return std::nullopt;
  return value;
}

std::string CostText(double cost_us) {
  const ClassicLocale locale;
  char text[40];
  for (int digits = 15; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, cost_us);
    if (std::strtod(text, nullptr) == cost_us) break;
  }
  return text;
}

}  // namespace lms
