// A part of an answer, as its text is divided into content, reasoning and calls of functions.
//
// Pure.  Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::gateway {

struct AnswerPiece {
  enum class Kind { kContent, kReasoning, kCall, kArguments };
  Kind kind = Kind::kContent;
  // For kCall: the function's name. Of kArguments: the next part of the JSON text.
  std::string text;
  // For kCall and kArguments: the call, from 0 in each output.
  size_t call = 0;

  bool operator==(const AnswerPiece&) const = default;
};

using AnswerPieces = std::vector<AnswerPiece>;

// Adds text at the end, to the last piece if that is of the same kind and call.
void AddText(AnswerPiece::Kind kind, size_t call, std::string_view text, AnswerPieces* pieces);

// Adds pieces at the end, and joins what came apart.
void Append(AnswerPieces more, AnswerPieces* pieces);

}  // namespace tutti::gateway
