#include "gateway/parse/answer_parser.h"

#include <utility>
#include <vector>

#include "gateway/limits.h"
#include "gateway/parse/call_forms.h"
#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {
namespace {

// Models that forget to end their reasoning call functions out of it.
std::vector<std::string_view> EndsOfReasoning(const ParseOptions* options) {
  const bool by_grammar = options != nullptr && options->by_grammar;
  const ToolForm form = options == nullptr || by_grammar ? ToolForm::kNone : options->form.tools;
  if (form == ToolForm::kHermes || form == ToolForm::kQwenXml) return {"</think>", "<tool_call>"};
  return {"</think>"};
}

}  // namespace

AnswerParser::AnswerParser(std::shared_ptr<const ParseOptions> options, std::set<size_t> not_calls)
    : options_(std::move(options)),
      calls_(options_ == nullptr ? nullptr
                                 : MakeCallParser(options_->form.tools, &options_->functions)),
      end_of_reasoning_(EndsOfReasoning(options_.get())) {
  if (options_ != nullptr && options_->form.reasoning != ReasoningForm::kNone)
    state_ = State::kBegin;
  if (calls_ != nullptr) calls_->Refuse(std::move(not_calls));
}

AnswerPieces AnswerParser::Feed(std::string_view text) {
  AnswerPieces pieces;
  if (state_ == State::kContent && !has_reasoned_ && calls_ == nullptr) {
    AddText(AnswerPiece::Kind::kContent, 0, text, &pieces);
    return pieces;
  }
  for (const char c : text) Push(c, &pieces);
  return Wanted(std::move(pieces));
}

AnswerPieces AnswerParser::Finish() {
  AnswerPieces pieces;
  if (state_ == State::kBegin) {
    const std::string held = begin_.Release();
    if (is_begun()) AddText(AnswerPiece::Kind::kReasoning, 0, held, &pieces);
    if (!is_begun()) PassOn(held, &pieces);
  } else if (state_ == State::kReasoning) {
    AddText(AnswerPiece::Kind::kReasoning, 0, end_of_reasoning_.Release(), &pieces);
  }
  PassOn(stray_end_.Release(), &pieces);
  if (calls_ != nullptr) calls_->Finish(&pieces);
  return Wanted(std::move(pieces));
}

void AnswerParser::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kBegin:
      return PushBegin(c, pieces);
    case State::kReasoning:
      return PushReasoning(c, pieces);
    case State::kContent:
      return PushContent(c, pieces);
  }
}

void AnswerParser::PushBegin(char c, AnswerPieces* pieces) {
  const NextWord::At at = begin_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = begin_.Release();
  const bool reasons = at == NextWord::At::kFound || is_begun();
  state_ = reasons ? State::kReasoning : State::kContent;
  skip_line_ends_ = has_reasoned_ = reasons;
  if (at == NextWord::At::kFound) return;
  for (const char held : all) Push(held, pieces);
}

void AnswerParser::PushReasoning(char c, AnswerPieces* pieces) {
  if (skip_line_ends_ && c == '\n') return;
  skip_line_ends_ = false;
  std::string text;
  const int tag = end_of_reasoning_.Push(c, &text);
  AddText(AnswerPiece::Kind::kReasoning, 0, text, pieces);
  if (tag == TagFinder::kNone) return;
  state_ = State::kContent;
  skip_line_ends_ = tag == 0;
  if (tag > 0) PassOn("<tool_call>", pieces);
}

void AnswerParser::PushContent(char c, AnswerPieces* pieces) {
  // Blanks behind the reasoning are none of a grammar's text.
  if (skip_line_ends_ && (c == '\n' || (options_->by_grammar && IsJsonBlank(c)))) return;
  skip_line_ends_ = false;
  // A second </think> is no text, except in a call.
  if (!has_reasoned_ || (calls_ != nullptr && !calls_->in_text())) {
    return PassOn(std::string_view(&c, 1), pieces);
  }
  std::string text;
  stray_end_.Push(c, &text);
  PassOn(text, pieces);
}

void AnswerParser::PassOn(std::string_view text, AnswerPieces* pieces) {
  if (calls_ == nullptr) return AddText(AnswerPiece::Kind::kContent, 0, text, pieces);
  for (const char c : text) calls_->Push(c, pieces);
}

AnswerPieces AnswerParser::Wanted(AnswerPieces pieces) const {
  std::erase_if(pieces, [this](const AnswerPiece& piece) {
    return options_ != nullptr &&
           ((piece.kind == AnswerPiece::Kind::kReasoning && !options_->tells_reasoning) ||
            (piece.call > 0 && options_->one_call_only));
  });
  return pieces;
}

WholeParse ParseWhole(const std::shared_ptr<const ParseOptions>& options, bool in_reasoning,
                      std::string_view text) {
  std::shared_ptr<const ParseOptions> used = options;
  std::set<size_t> not_calls;
  while (true) {
    AnswerParser parser(used, not_calls);
    parser.BeginInReasoning(in_reasoning);
    WholeParse parse{.pieces = parser.Feed(text)};
    Append(parser.Finish(), &parse.pieces);
    parse.has_calls = parser.has_calls();
    const std::optional<size_t> broken = parser.first_broken_call();
    if (!broken) return parse;
    // Without it what follows may be cut into calls in another way: one after the other.
    not_calls.insert(*broken);
    if (not_calls.size() <= kBrokenCallsMax) continue;
    ParseOptions no_calls = *options;
    no_calls.form.tools = ToolForm::kNone;
    used = std::make_shared<const ParseOptions>(std::move(no_calls));
  }
}

}  // namespace tutti::gateway
