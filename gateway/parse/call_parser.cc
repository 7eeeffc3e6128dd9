#include "gateway/parse/call_parser.h"

#include "gateway/limits.h"

namespace tutti::gateway {

void CallParser::Text(std::string_view text, AnswerPieces* pieces) const {
  AddText(AnswerPiece::Kind::kContent, 0, text, pieces);
}

void CallParser::PushAll(std::string_view text, AnswerPieces* pieces) {
  for (const char c : text) Push(c, pieces);
}

bool CallParser::Announce(const std::string& name, AnswerPieces* pieces) {
  if (calls_ >= kCallsPerOutputMax) return false;
  pieces->push_back({.kind = AnswerPiece::Kind::kCall, .text = name, .call = calls_++});
  return true;
}

void CallParser::Arguments(std::string_view text, AnswerPieces* pieces) const {
  AddText(AnswerPiece::Kind::kArguments, calls_ - 1, text, pieces);
}

}  // namespace tutti::gateway
