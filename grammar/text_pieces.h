// Texts put together from pieces of any kind: abseil's own functions know std::string_view only
// where abseil is built without one of its own.
//
// Pure; any thread.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace tutti::grammar {

class TextPiece {
 public:
  TextPiece(std::string_view text) : text_(text) {}
  TextPiece(const std::string& text) : text_(text) {}
  TextPiece(const char* text) : text_(text) {}
  template <std::same_as<absl::string_view> Text>
  requires(!std::same_as<Text, std::string_view>) TextPiece(Text text)
      : text_(text.data(), text.size()) {}
  template <std::integral Number>
  TextPiece(Number number) : number_(std::to_string(number)), text_(number_) {}
  TextPiece(const TextPiece&) = delete;
  TextPiece& operator=(const TextPiece&) = delete;

  std::string_view text() const { return text_; }

 private:
  const std::string number_;
  const std::string_view text_;
};

template <typename... Pieces>
std::string Concat(const Pieces&... pieces) {
  std::string out;
  ((out += TextPiece(pieces).text()), ...);
  return out;
}

// A whole number in decimal, or nothing where the text is none or too large.
template <std::integral Number>
bool ReadNumber(std::string_view text, Number* number) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number);
}

}  // namespace tutti::grammar
