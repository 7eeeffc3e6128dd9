#include "gateway/parse/json_call.h"

#include <utility>

#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {

JsonCall::At JsonCall::Push(char c, std::string* arguments) {
  const size_t depth = scanner_.depth();
  const bool was_key = scanner_.in_key();
  if (depth == 0 && c == '[') return At::kWrong;
  const JsonScanner::At at = scanner_.Push(c);
  if (at == JsonScanner::At::kWrong) return At::kWrong;
  if (at == JsonScanner::At::kEnd) return named_ && complete_ ? At::kEnd : At::kWrong;
  const bool outer = depth == 1 && scanner_.depth() == 1;
  if (outer && (was_key || scanner_.in_key())) {
    if (!was_key) {
      key_.clear();
    } else if (!scanner_.in_key()) {
      if (!BeginMember()) return At::kWrong;
    } else if (key_.size() < kFunctionNameBytesMax) {
      key_ += c;
    }
    return At::kInside;
  }
  if (member_ == Member::kNone) return At::kInside;
  if (!value_begun_) {
    if (c == ':' || IsJsonBlank(c)) return At::kInside;
    if (!BeginValue(c)) return At::kWrong;
    value_begun_ = true;
  }
  if (member_ == Member::kName && !TakeName(c)) return At::kWrong;
  if (member_ == Member::kArguments && !TakeArguments(c, arguments)) return At::kWrong;
  if (named_ || !has_name_ || !begun_well_) return At::kInside;
  named_ = true;
  *arguments += std::exchange(held_, {});
  return At::kNamed;
}

bool JsonCall::BeginMember() {
  value_begun_ = false;
  if (key_ == "name") {
    member_ = Member::kName;
    return name_.empty();
  }
  if (key_ == "arguments" || key_ == "parameters") {
    member_ = Member::kArguments;
    return !begun_well_;
  }
  member_ = Member::kOther;
  // Text that is JSON and no call is told apart at its first key.
  return named_ || key_ == "type" || key_ == "id";
}

bool JsonCall::BeginValue(char c) const {
  if (member_ == Member::kName) return c == '"';
  return member_ != Member::kArguments || c == '{';
}

bool JsonCall::TakeName(char c) {
  if (has_name_) return true;
  name_ += c;
  if (name_.size() > kFunctionNameBytesMax) return false;
  if (scanner_.in_string()) return true;
  const Json name = Json::parse(name_, nullptr, /*allow_exceptions=*/false);
  if (!name.is_string()) return false;
  name_ = name.get<std::string>();
  has_name_ = true;
  return functions_.contains(name_);
}

bool JsonCall::TakeArguments(char c, std::string* arguments) {
  if (complete_) return true;
  std::string& to = named_ ? *arguments : held_;
  if (scanner_.in_string() && static_cast<unsigned char>(c) < 0x20) {
    AppendEscaped(std::string_view(&c, 1), &to);
  } else {
    to += c;
  }
  if (held_.size() > kHeldBytesMax) return false;
  if (c != '{' && !IsJsonBlank(c)) begun_well_ = true;
  complete_ = scanner_.depth() == 1;
  return true;
}

}  // namespace tutti::gateway
