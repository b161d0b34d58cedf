// JSON objects, written field by field.

#ifndef LMS_CC_CLI_JSON_H_
#define LMS_CC_CLI_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lms::cli {

class JsonObject {
 public:
  JsonObject& Text(std::string_view name, std::string_view value);  // what is no UTF-8 becomes U+FFFD
  JsonObject& Integer(std::string_view name, int64_t value);
  JsonObject& Number(std::string_view name, double value);  // finite
  JsonObject& Bool(std::string_view name, bool value);
  JsonObject& List(std::string_view name, const std::vector<JsonObject>& objects);

  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  JsonObject& Add(std::string_view name, const std::string& json);
  std::string fields_;
};

}  // namespace lms::cli

#endif  // LMS_CC_CLI_JSON_H_
