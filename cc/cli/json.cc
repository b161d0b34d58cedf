#include "cc/cli/json.h"

#include <cstdio>

#include "cc/core/text/text_reader.h"

namespace lms::cli {
namespace {

std::string QuotedJson(std::string_view text) {
  std::string json = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      json += "\\ufffd";
    } else if (byte == '"' || byte == '\\') {
      json += {'\\', text[i]};
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      json += escape;
    } else {
      json.append(text.substr(i, length));
    }
    i += length == 0 ? 1 : length;
  }
  return json + "\"";
}

}  // namespace

JsonObject& JsonObject::Add(std::string_view name, const std::string& json) {
  if (!fields_.empty()) fields_ += ", ";
  fields_ += QuotedJson(name) + ": " + json;
  return *this;
}

JsonObject& JsonObject::Text(std::string_view name, std::string_view value) { return Add(name, QuotedJson(value)); }

JsonObject& JsonObject::Integer(std::string_view name, int64_t value) { return Add(name, std::to_string(value)); }

JsonObject& JsonObject::Number(std::string_view name, double value) { return Add(name, CostText(value)); }

JsonObject& JsonObject::Bool(std::string_view name, bool value) { return Add(name, value ? "true" : "false"); }

JsonObject& JsonObject::List(std::string_view name, const std::vector<JsonObject>& objects) {
  std::string json;
  for (const JsonObject& object : objects) json += (json.empty() ? "\n  " : ",\n  ") + object.ToString();
  return Add(name, "[" + json + "]");
}

}  // namespace lms::cli
