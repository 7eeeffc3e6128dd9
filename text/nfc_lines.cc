// nfc_lines: reads texts, a line each as hexadecimal code points, and writes them in normalization
// form C, in the same form; for nfc_test.py.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "text/unicode.h"

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    for (const absl::string_view digits : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      uint32_t code_point = 0;
      if (!absl::SimpleHexAtoi(digits, &code_point) || code_point > 0x10FFFF) return 2;
      tutti::text::AppendUtf8(code_point, &text);
    }
    const std::string normal = tutti::text::NormalizeNfc(text);
    for (size_t at = 0; at < normal.size();) {
      const tutti::text::Utf8Unit unit =
          tutti::text::FirstUtf8Unit(std::string_view(normal).substr(at));
      if (unit.kind != tutti::text::Utf8Unit::kCharacter) return 3;
      std::printf("%s%X", at == 0 ? "" : " ", static_cast<unsigned>(unit.code_point));
      at += static_cast<size_t>(unit.length);
    }
    std::printf("\n");
  }
  return 0;
}
