#include "gateway/anthropic/messages_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/anthropic/error_form.h"

namespace tutti::gateway {
namespace {

using Kind = AnswerPiece::Kind;

std::string Event(const char* type, OrderedJson fields) {
  OrderedJson event = {{"type", type}};
  for (auto& [name, value] : fields.items()) event[name] = std::move(value);
  return absl::StrCat("event: ", type, "\ndata: ", Dump(event), "\n\n");
}

}  // namespace

MessagesAnswer::MessagesAnswer(bool stream, std::string id, std::string model,
                               std::shared_ptr<const ParseOptions> parse)
    : stream_(stream),
      id_(std::move(id)),
      model_(std::move(model)),
      parse_(std::move(parse)),
      parser_(parse_) {}

// Another gateway that goes on with the answer gives the same.
std::string MessagesAnswer::CallId(size_t call) const {
  return absl::StrCat("toolu_", id_.substr(id_.find('_') + 1), "_", call);
}

OrderedJson MessagesAnswer::BlockJson(Block block, const AnswerPiece* call) const {
  switch (block) {
    case Block::kThinking:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case Block::kCall:
      return {{"type", "tool_use"},
              {"id", CallId(call->call)},
              {"name", call->text},
              {"input", OrderedJson::object()}};
    default:
      return {{"type", "text"}, {"text", ""}};
  }
}

OrderedJson MessagesAnswer::UsageJson() const {
  return {{"input_tokens", prompt_tokens_ - cached_tokens_},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached_tokens_},
          {"output_tokens", output_tokens_}};
}

OrderedJson MessagesAnswer::MessageJson(OrderedJson content, OrderedJson stop_reason,
                                        OrderedJson stop_sequence) const {
  OrderedJson json = {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}};
  json["content"] = std::move(content);
  json["stop_reason"] = std::move(stop_reason);
  json["stop_sequence"] = std::move(stop_sequence);
  json["usage"] = UsageJson();
  return json;
}

OrderedJson MessagesAnswer::StopReason(bool has_calls) const {
  if (finish_.reason() == v1::FINISH_REASON_LENGTH) return "max_tokens";
  if (has_calls) return "tool_use";
  return finish_.stop().empty() ? "end_turn" : "stop_sequence";
}

OrderedJson MessagesAnswer::StopSequence() const {
  return finish_.stop().empty() ? OrderedJson() : OrderedJson(finish_.stop());
}

std::string MessagesAnswer::Begin() {
  if (std::exchange(begun_, true) || !stream_) return "";
  return Event("message_start", {{"message", MessageJson(OrderedJson::array(), nullptr, nullptr)}});
}

std::string MessagesAnswer::Open(Block block, const AnswerPiece* call) {
  std::string events = Close();
  open_ = block;
  events += Event("content_block_start",
                  {{"index", blocks_++}, {"content_block", BlockJson(block, call)}});
  return events;
}

std::string MessagesAnswer::Close() {
  if (std::exchange(open_, Block::kNone) == Block::kNone) return "";
  return Event("content_block_stop", {{"index", blocks_ - 1}});
}

std::string MessagesAnswer::Add(const AnswerPiece& piece) {
  const Block block = piece.kind == Kind::kReasoning ? Block::kThinking
                      : piece.kind == Kind::kContent ? Block::kText
                                                     : Block::kCall;
  std::string events;
  if (piece.kind == Kind::kCall || open_ != block) events = Open(block, &piece);
  if (piece.kind == Kind::kCall) return events;
  OrderedJson delta;
  switch (piece.kind) {
    case Kind::kReasoning:
      delta = {{"type", "thinking_delta"}, {"thinking", piece.text}};
      break;
    case Kind::kContent:
      delta = {{"type", "text_delta"}, {"text", piece.text}};
      break;
    default:
      delta = {{"type", "input_json_delta"}, {"partial_json", piece.text}};
  }
  events += Event("content_block_delta", {{"index", blocks_ - 1}, {"delta", std::move(delta)}});
  return events;
}

std::string MessagesAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (prompt > 0 || message.output() > 0) return "";
  if (message.has_started()) {
    prompt_tokens_ = message.started().prompt_tokens();
    in_reasoning_ = message.started().in_reasoning();
    parser_.BeginInReasoning(in_reasoning_);
  }
  std::string events = Begin();
  output_tokens_ += message.tokens_size();
  if (message.has_finish()) {
    finish_ = message.finish();
    cached_tokens_ = finish_.usage().cached_prompt_tokens();
  }
  if (!stream_) {
    raw_ += message.text();
    return "";
  }
  AnswerPieces pieces = parser_.Feed(message.text());
  if (message.has_finish()) Append(parser_.Finish(), &pieces);
  for (const AnswerPiece& piece : pieces) events += Add(piece);
  return events;
}

std::string MessagesAnswer::WholeBody() const {
  const WholeParse parse = ParseWhole(parse_, in_reasoning_, raw_);
  OrderedJson content = OrderedJson::array();
  std::string arguments;  // of the last call
  const auto end_call = [&] {
    // What is no object has become text before.
    OrderedJson input = OrderedJson::parse(arguments, nullptr, /*allow_exceptions=*/false);
    if (input.is_object()) content.back()["input"] = std::move(input);
    arguments.clear();
  };
  for (const AnswerPiece& piece : parse.pieces) {
    if (piece.kind == Kind::kArguments) {
      arguments += piece.text;
      continue;
    }
    end_call();
    const Block block = piece.kind == Kind::kReasoning ? Block::kThinking
                        : piece.kind == Kind::kContent ? Block::kText
                                                       : Block::kCall;
    content.push_back(BlockJson(block, &piece));
    if (block == Block::kThinking) content.back()["thinking"] = piece.text;
    if (block == Block::kText) content.back()["text"] = piece.text;
  }
  end_call();
  if (content.empty()) content.push_back(BlockJson(Block::kText, nullptr));
  return Dump(MessageJson(std::move(content), StopReason(parse.has_calls), StopSequence()));
}

std::string MessagesAnswer::OnEnd() {
  if (!stream_) return WholeBody();
  std::string events = Begin();
  if (blocks_ == 0) events += Open(Block::kText, nullptr);
  events += Close();
  events += Event(
      "message_delta",
      {{"delta",
        {{"stop_reason", StopReason(parser_.has_calls())}, {"stop_sequence", StopSequence()}}},
       {"usage", UsageJson()}});
  events += Event("message_stop", OrderedJson::object());
  return events;
}

std::string MessagesAnswer::OnError(const ApiError& error) {
  const std::string body = AnthropicErrorBody(error);
  return stream_ ? absl::StrCat("event: error\ndata: ", body, "\n\n") : body;
}

std::string MessagesAnswer::OnSilence() const {
  // Clients expect nothing before the message's start.
  return begun_ ? Event("ping", OrderedJson::object()) : AnswerWriter::OnSilence();
}

}  // namespace tutti::gateway
