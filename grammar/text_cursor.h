// A place in a source, moved on character by character.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::grammar {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  void set_at(size_t at) { at_ = at; }
  std::string_view rest() const { return text_.substr(at_); }
  // The byte here, 0 at the end.
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }

  bool Take(std::string_view expected) {
    if (!rest().starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  // The code point here. REQUIRES: valid UTF-8, not at the end
  uint32_t TakeCharacter() {
    const auto lead = static_cast<unsigned char>(text_[at_++]);
    if (lead < 0x80) return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t character = lead & (0x3Fu >> more);
    for (int i = 0; i < more && !AtEnd(); ++i) {
      character = character << 6 | (static_cast<unsigned char>(text_[at_++]) & 0x3Fu);
    }
    return character;
  }

  // The value of exactly `digits` hexadecimal digits; UINT32_MAX when they are not there.
  uint32_t TakeHex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = HexDigit(Peek());
      if (digit < 0) return UINT32_MAX;
      value = value << 4 | static_cast<uint32_t>(digit);
      ++at_;
    }
    return value;
  }

  static int HexDigit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace tutti::grammar
