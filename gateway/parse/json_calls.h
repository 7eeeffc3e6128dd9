// The parts that are shared by the forms whose calls are JSON objects.
//
// Thread: one.
#pragma once

#include <optional>
#include <string>

#include "gateway/parse/call_parser.h"
#include "gateway/parse/json_call.h"

namespace tutti::gateway {

class JsonCalls : public CallParser {
 protected:
  explicit JsonCalls(const Functions* functions) : CallParser(functions), known_(functions) {}

  // `markup`: what stands before the object, and is content if that is no call.
  void BeginCall(std::string markup);
  enum class At { kInside, kEnd, kWrong };
  // kWrong: `c` is not taken; what was held back is content.
  At PushCall(char c, AnswerPieces* pieces);
  // In the middle of the object: what is held back comes out.
  void FinishCall(AnswerPieces* pieces);

 private:
  const Functions* const known_;
  std::optional<JsonCall> call_;
  std::string held_;  // the call's text until it is announced
};

}  // namespace tutti::gateway
