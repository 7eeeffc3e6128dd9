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
  const size_t number = tried_++;
  if (calls_ >= kCallsPerOutputMax || refused_.contains(number)) return false;
  if (!broken_) broken_ = open_;
  open_ = number;
  pieces->push_back({.kind = AnswerPiece::Kind::kCall, .text = name, .call = calls_++});
  return true;
}

void CallParser::Arguments(std::string_view text, AnswerPieces* pieces) const {
  AddText(AnswerPiece::Kind::kArguments, calls_ - 1, text, pieces);
}

}  // namespace tutti::gateway
