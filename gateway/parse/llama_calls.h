// {"name": NAME, "parameters": {...}} at the beginning of an answer or behind <|python_tag|>,
// several with semicolons between.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gateway/parse/json_calls.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class LlamaCalls final : public JsonCalls {
 public:
  explicit LlamaCalls(const Functions* functions) : JsonCalls(functions) {}
  void Push(char c, AnswerPieces* pieces) override;
  void Finish(AnswerPieces* pieces) override;
  bool in_text() const override { return state_ == State::kBegin || state_ == State::kText; }

 private:
  enum class State : uint8_t {
    kBegin,  // of the answer
    kText,
    kObject,  // behind a mark after which only a call may come
    kCall,
    kBetween,  // behind a call
  };
  void PushBegin(char c, AnswerPieces* pieces);
  void PushText(char c, AnswerPieces* pieces);
  void PushObject(char c, AnswerPieces* pieces);
  void PushBetween(char c, AnswerPieces* pieces);

  State state_ = State::kBegin;
  std::string mark_;  // with the blanks behind it
  // Tokens that end turns are no part of any text.
  TagFinder tags_{{"<|python_tag|>", "<|eom_id|>", "<|eot_id|>", "<|end_of_text|>"}};
  NextWord object_{{"{"}};
  NextWord between_{{";", "{", "<|python_tag|>", "}"}};
  size_t extra_braces_ = 0;
};

}  // namespace tutti::gateway
