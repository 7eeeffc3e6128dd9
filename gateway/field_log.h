// What the readers of requests look for, told while a FieldLog lives on the thread that reads. The
// document of the API is made of it (document/open_api.h): it says what they do and nothing else.
//
// Thread: one, on which one lives at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "gateway/json_text.h"

namespace tutti::gateway {

struct FieldUse {
  // In the order in which they count where a field is looked for in several ways.
  enum class Kind : uint8_t {
    kIgnored,  // no answer depends on it
    kRefused,  // but for null, what is empty, and `harmless`
    kAny,      // taken as it is: `forms` says what was met
    kBool,
    kInteger,  // in [min, max]
    kNumber,
    kText,
    kIds,    // a list of ids of tokens
    kTexts,  // a text or a list of texts
  };
  Kind kind = Kind::kAny;
  int64_t min = 0, max = 0;
  std::string harmless = {};
  std::string instead = {};          // kRefused: the field that is served in its place, or ""
  std::set<std::string> forms = {};  // "string", "object", "array of integer", ...
};

class FieldLog {
 public:
  FieldLog();
  ~FieldLog();
  FieldLog(const FieldLog&) = delete;
  FieldLog& operator=(const FieldLog&) = delete;

  // Where a log lives on this thread: of the field `path`, of whose value there is `value` (null:
  // none); and that an object, "" or a path, has no other fields than those told.
  static void Tell(const std::string& path, FieldUse use, const Json* value = nullptr);
  static void TellClosed(const std::string& path);

  // By path, in which "[]" stands for every index: "messages[].content[].text".
  const std::map<std::string, FieldUse>& uses() const { return uses_; }
  const std::set<std::string>& closed() const { return closed_; }

 private:
  std::map<std::string, FieldUse> uses_;
  std::set<std::string> closed_;
};

}  // namespace tutti::gateway
