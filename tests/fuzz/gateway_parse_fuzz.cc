// The text of an answer, as a model may write it: however it is cut, the same content, reasoning
// and calls. The first byte of the input says which forms are looked for, the second how it is cut.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/json_text.h"
#include "gateway/parse/answer_parser.h"

namespace {

using tutti::gateway::AnswerPiece;
using tutti::gateway::AnswerPieces;
using tutti::gateway::ParseOptions;
using tutti::gateway::ReasoningForm;
using tutti::gateway::ToolForm;
using tutti::gateway::ValueTypes;

ParseOptions OptionsOf(uint8_t choice) {
  return {.form = {.tools = static_cast<ToolForm>(choice % 5),
                   .reasoning = static_cast<ReasoningForm>(choice / 5 % 3)},
          .functions = {{"f",
                         {{"a", {.types = {ValueTypes::Type::kNumber}}},
                          {"b", {.types = {ValueTypes::Type::kNull, ValueTypes::Type::kArray}}},
                          {"c", {}}}},
                        {"now", {}}}};
}

// Pieces with what belongs together joined.
AnswerPieces Parse(const std::shared_ptr<const ParseOptions>& options, std::string_view text,
                   size_t size, bool* has_calls) {
  tutti::gateway::AnswerParser parser(options);
  AnswerPieces joined;
  const auto take = [&joined](const AnswerPieces& pieces) {
    for (const AnswerPiece& piece : pieces) {
      if (piece.kind == AnswerPiece::Kind::kCall) {
        joined.push_back(piece);
      } else {
        CHECK(!piece.text.empty());
        AddText(piece.kind, piece.call, piece.text, &joined);
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += size) take(parser.Feed(text.substr(at, size)));
  take(parser.Finish());
  *has_calls = parser.has_calls();
  return joined;
}

// Numbers beyond a double are JSON, but not for the library.
bool IsLibrarysMatter(const std::string& json) {
  return json.size() > 300 || json.find_first_of("eE") != std::string::npos;
}

void CheckPieces(const ParseOptions& options, const AnswerPieces& pieces, const std::string& text,
                 bool has_calls) {
  std::string content;
  size_t calls = 0, whole = 0;
  bool reasoned = false;
  for (const AnswerPiece& piece : pieces) {
    reasoned |= piece.kind == AnswerPiece::Kind::kReasoning;
    if (piece.kind == AnswerPiece::Kind::kContent) content += piece.text;
    if (piece.kind == AnswerPiece::Kind::kCall) {
      CHECK(options.functions.contains(piece.text));
      CHECK(piece.call == calls++);
    }
    if (piece.kind == AnswerPiece::Kind::kArguments) {
      CHECK(piece.call + 1 == calls);
      if (IsLibrarysMatter(piece.text) || tutti::gateway::Json::accept(piece.text)) ++whole;
    }
  }
  CHECK(!has_calls || whole > 0);
  const bool keeps_all =
      options.form.tools <= ToolForm::kQwenXml && options.form.reasoning == ReasoningForm::kNone;
  if (keeps_all && calls == 0 && !reasoned) CHECK(content == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  // The service's texts are UTF-8.
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x80 ? c : 'x';
  const auto options = std::make_shared<const ParseOptions>(OptionsOf(data[0]));
  bool whole_has_calls = false, cut_has_calls = false;
  const AnswerPieces whole =
      Parse(options, text, std::max<size_t>(text.size(), 1), &whole_has_calls);
  const AnswerPieces cut = Parse(options, text, 1 + data[1] % 16, &cut_has_calls);
  CHECK(whole == cut && whole_has_calls == cut_has_calls);
  CheckPieces(*options, whole, text, whole_has_calls);
  return 0;
}
