#include "text/detokenizer.h"

#include <optional>

#include "text/unicode.h"

namespace tutti::text {

std::string Detokenizer::Push(TokenId token) {
  if (tokenizer_ == nullptr) return {};
  std::optional<std::string_view> bytes =
      skip_special_tokens_ ? tokenizer_->TokenBytes(token) : tokenizer_->TokenText(token);
  if (!bytes.has_value()) return {};
  if (drop_space_ && bytes->starts_with(' ')) bytes->remove_prefix(1);
  drop_space_ = drop_space_ && tokenizer_->IsSpecial(token);
  held_.append(*bytes);
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(rest);
    if (unit.kind == Utf8Unit::kIncomplete) break;
    text.append(unit.kind == Utf8Unit::kCharacter ? rest.substr(0, unit.length)
                                                  : kReplacementCharacter);
    rest.remove_prefix(unit.length);
  }
  held_.erase(0, held_.size() - rest.size());
  return text;
}

std::string Detokenizer::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace tutti::text
