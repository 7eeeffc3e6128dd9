#include "gateway/parse/answer_piece.h"

#include <utility>

namespace tutti::gateway {

void AddText(AnswerPiece::Kind kind, size_t call, std::string_view text, AnswerPieces* pieces) {
  if (text.empty()) return;
  if (pieces->empty() || pieces->back().kind != kind || pieces->back().call != call) {
    pieces->push_back({.kind = kind, .text = "", .call = call});
  }
  pieces->back().text += text;
}

void Append(AnswerPieces more, AnswerPieces* pieces) {
  for (AnswerPiece& piece : more) {
    if (piece.kind == AnswerPiece::Kind::kCall) {
      pieces->push_back(std::move(piece));
    } else {
      AddText(piece.kind, piece.call, piece.text, pieces);
    }
  }
}

}  // namespace tutti::gateway
