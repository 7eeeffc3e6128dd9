#include "gateway/parse/answer_piece.h"

namespace tutti::gateway {

void AddText(AnswerPiece::Kind kind, size_t call, std::string_view text, AnswerPieces* pieces) {
  if (text.empty()) return;
  if (pieces->empty() || pieces->back().kind != kind || pieces->back().call != call) {
    pieces->push_back({.kind = kind, .text = "", .call = call});
  }
  pieces->back().text += text;
}

}  // namespace tutti::gateway
