#include "gateway/openai/choice_text.h"

#include <openssl/sha.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gateway/openai/answer_parts.h"

namespace tutti::gateway {

using PieceKind = AnswerPiece::Kind;

ChoiceText::ChoiceText(std::shared_ptr<const ParseOptions> options, bool old_reasoning_name,
                       std::string answer_id, size_t index)
    : parses_(options != nullptr),
      named_call_(options != nullptr && options->named_call),
      old_reasoning_name_(old_reasoning_name),
      answer_id_(std::move(answer_id)),
      index_(index),
      parser_(std::make_unique<AnswerParser>(std::move(options))) {}

AnswerPieces ChoiceText::Take(const v1::GenerateResponse& message) {
  AnswerPieces pieces = parser_->Feed(message.text());
  if (message.has_finish()) Append(parser_->Finish(), &pieces);
  return pieces;
}

// Another gateway that goes on with the answer gives the same.
std::string ChoiceText::CallId(size_t call) const {
  constexpr size_t kBytes = 12;
  const std::string text = absl::StrCat(answer_id_, ":", index_, ":", call);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return absl::StrCat("call_", absl::BytesToHexString(absl::string_view(
                                   reinterpret_cast<const char*>(hash.data()), kBytes)));
}

void ChoiceText::SetReasoning(const std::string& text, OrderedJson* json) const {
  (*json)["reasoning"] = text;
  if (old_reasoning_name_) (*json)["reasoning_content"] = text;
}

OrderedJson ChoiceText::DeltaJson(const AnswerPiece& piece) const {
  OrderedJson delta = OrderedJson::object();
  switch (piece.kind) {
    case PieceKind::kContent:
      delta["content"] = piece.text;
      break;
    case PieceKind::kReasoning:
      SetReasoning(piece.text, &delta);
      break;
    case PieceKind::kCall:
      delta["tool_calls"] = OrderedJson::array(
          {{{"index", piece.call},
            {"id", CallId(piece.call)},
            {"type", "function"},
            {"function", OrderedJson{{"name", piece.text}, {"arguments", ""}}}}});
      break;
    case PieceKind::kArguments:
      delta["tool_calls"] = OrderedJson::array(
          {{{"index", piece.call}, {"function", OrderedJson{{"arguments", piece.text}}}}});
      break;
  }
  return delta;
}

OrderedJson ChoiceText::MessageJson(const AnswerPieces& pieces) const {
  std::string content, reasoning;
  OrderedJson calls = OrderedJson::array();
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case PieceKind::kContent:
        content += piece.text;
        break;
      case PieceKind::kReasoning:
        reasoning += piece.text;
        break;
      case PieceKind::kCall:
        calls.push_back({{"id", CallId(piece.call)},
                         {"type", "function"},
                         {"function", OrderedJson{{"name", piece.text}, {"arguments", ""}}}});
        break;
      case PieceKind::kArguments:
        calls.back()["function"]["arguments"].get_ref<std::string&>() += piece.text;
        break;
    }
  }
  OrderedJson message = {
      {"role", "assistant"}, {"content", content}, {"refusal", nullptr}, {"reasoning", nullptr}};
  if (parses_ && content.empty()) message["content"] = nullptr;
  if (!reasoning.empty()) SetReasoning(reasoning, &message);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

const char* ChoiceText::FinishReason(v1::FinishReason reason, bool has_calls) const {
  if (reason != v1::FINISH_REASON_STOP || !has_calls) return FinishReasonText(reason);
  // OpenAI's and vLLM's word for a call that was named.
  return named_call_ ? "stop" : "tool_calls";
}

}  // namespace tutti::gateway
