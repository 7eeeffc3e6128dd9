// Divides the text of one output into content, reasoning and calls, while it comes.
//
// Reasoning is what stands between <think> at the beginning, or the prompt's end, and </think>, or
// a call. The concatenated pieces are those of the whole text, however it is cut.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "gateway/parse/answer_form.h"
#include "gateway/parse/answer_piece.h"
#include "gateway/parse/call_parser.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class AnswerParser {
 public:
  // Null: all text is content. `not_calls`: as CallParser::Refuse.
  explicit AnswerParser(std::shared_ptr<const ParseOptions> options,
                        std::set<size_t> not_calls = {});

  // The prompt ends inside of a reasoning, or not. Before any text; without it, not.
  void BeginInReasoning(bool in_reasoning) { prompt_opens_ = in_reasoning; }
  AnswerPieces Feed(std::string_view text);
  // The text that is held back, as nothing follows.
  AnswerPieces Finish();

  // Calls that are whole and part of the answer.
  bool has_calls() const { return calls_ != nullptr && calls_->complete_calls() > 0; }
  // As CallParser::first_broken.
  std::optional<size_t> first_broken_call() const {
    return calls_ == nullptr ? std::nullopt : calls_->first_broken();
  }

 private:
  enum class State : uint8_t { kBegin, kReasoning, kContent };
  void Push(char c, AnswerPieces* pieces);
  void PushBegin(char c, AnswerPieces* pieces);
  void PushReasoning(char c, AnswerPieces* pieces);
  void PushContent(char c, AnswerPieces* pieces);
  // Text outside of reasoning, for the calls' parser.
  void PassOn(std::string_view text, AnswerPieces* pieces);
  AnswerPieces Wanted(AnswerPieces pieces) const;

  // Text without <think> at its beginning is reasoning.  REQUIRES: it is looked for
  bool is_begun() const {
    return prompt_opens_ || options_->form.reasoning == ReasoningForm::kThinkBegun;
  }

  const std::shared_ptr<const ParseOptions> options_;
  const std::unique_ptr<CallParser> calls_;
  bool prompt_opens_ = false;
  State state_ = State::kContent;
  bool skip_line_ends_ = false;
  bool has_reasoned_ = false;
  NextWord begin_{{"<think>"}};
  TagFinder end_of_reasoning_;
  TagFinder stray_end_{{"</think>"}};
};

// The parse of a text that is there as a whole: a call that is broken is content, as it was
// written, and nothing of it a call.
struct WholeParse {
  AnswerPieces pieces;
  bool has_calls = false;
};
WholeParse ParseWhole(const std::shared_ptr<const ParseOptions>& options, bool in_reasoning,
                      std::string_view text);

}  // namespace tutti::gateway
