#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace tutti::text {
namespace {

// A character and its place; nothing at an end of the text.
struct Character {
  bool there = false;
  char32_t code_point = 0;
  size_t begin = 0;
  size_t end = 0;
};

Character CharacterAt(std::string_view text, size_t begin) {
  if (begin == text.size()) return {};
  const Utf8Unit unit = FirstUtf8Unit(text.substr(begin));
  return {true, unit.code_point, begin, begin + unit.length};
}

Character CharacterBefore(std::string_view text, size_t end) {
  if (end == 0) return {};
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return CharacterAt(text, begin);
}

bool IsOfAWord(const Character& one) { return one.there && IsWordCharacter(one.code_point); }

}  // namespace

std::optional<AddedTokenPlace> PlaceOf(const AddedToken& token, std::string_view text, size_t at,
                                       size_t from) {
  AddedTokenPlace place{at, at + token.content.size()};
  Character before = CharacterBefore(text, place.begin);
  Character behind = CharacterAt(text, place.end);
  if (token.single_word && (IsOfAWord(before) || IsOfAWord(behind))) return std::nullopt;
  while (token.lstrip && place.begin > from && before.there && IsBlank(before.code_point)) {
    place.begin = before.begin;
    before = CharacterBefore(text, place.begin);
  }
  while (token.rstrip && behind.there && IsBlank(behind.code_point)) {
    place.end = behind.end;
    behind = CharacterAt(text, place.end);
  }
  return place;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (const AddedToken& token : tokens_) {
    first_bytes_[static_cast<unsigned char>(token.content[0])] = true;
    uint32_t node = 0;
    for (const char byte : token.content) {
      const auto [edge, inserted] =
          edges_.emplace(Edge(node, byte), static_cast<uint32_t>(nodes_.size()));
      if (inserted) nodes_.emplace_back();
      node = edge->second;
    }
    nodes_[node].token = &token;
  }
  if (std::count(first_bytes_.begin(), first_bytes_.end(), true) == 1) {
    first_byte_ = tokens_.front().content[0];
  }
}

absl::InlinedVector<const AddedToken*, 2> AddedTokenMatcher::At(std::string_view text) const {
  absl::InlinedVector<const AddedToken*, 2> found;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto edge = edges_.find(Edge(node, byte));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (nodes_[node].token != nullptr) found.push_back(nodes_[node].token);
  }
  return found;
}

size_t AddedTokenMatcher::SkipTo(std::string_view text, size_t begin) const {
  if (first_byte_.has_value()) return std::min(text.find(*first_byte_, begin), text.size());
  while (begin < text.size() && !first_bytes_[static_cast<unsigned char>(text[begin])]) ++begin;
  return begin;
}

}  // namespace tutti::text
