// One call as a JSON object, byte by byte: {"name": NAME, "arguments": {...}}, in any order, with
// "parameters" for "arguments" as well, and perhaps "type" and "id".
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/parse/answer_form.h"
#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {

class JsonCall {
 public:
  // REQUIRES: `functions` outlives it.
  explicit JsonCall(const Functions* functions) : functions_(*functions) {}

  enum class At {
    kInside,
    kNamed,  // the name is certain, the arguments have begun
    kEnd,    // with the object's last byte
    kWrong,
  };
  // From kNamed on, parts of the arguments go to *arguments, as they are written, but for control
  // characters in strings, which are escaped.
  At Push(char c, std::string* arguments);
  const std::string& name() const { return name_; }
  bool named() const { return named_; }
  // The arguments have ended.
  bool complete() const { return complete_; }

 private:
  enum class Member : uint8_t { kNone, kName, kArguments, kOther };
  // False: no call has it.
  bool BeginMember();
  bool BeginValue(char c) const;
  bool TakeName(char c);
  bool TakeArguments(char c, std::string* arguments);

  const Functions& functions_;
  JsonScanner scanner_{/*takes_controls=*/true};
  std::string key_;
  Member member_ = Member::kNone;
  bool value_begun_ = false;
  std::string name_;  // first as it is written, with its quotes
  bool has_name_ = false;
  std::string held_;  // arguments before the name
  bool begun_well_ = false;
  bool named_ = false;
  bool complete_ = false;
};

}  // namespace tutti::gateway
