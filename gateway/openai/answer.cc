#include "gateway/openai/answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

constexpr char kDone[] = "data: [DONE]\n\n";

// What is told of a message where the prompt alone is answered.
v1::GenerateResponse WithoutOutput(const v1::GenerateResponse& message) {
  v1::GenerateResponse rest = message;
  rest.clear_tokens();
  rest.clear_text();
  if (rest.has_finish()) {
    rest.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
    rest.mutable_finish()->clear_stop();
  }
  return rest;
}

// Moves the end of an output, with the token that is it, out of the message.
v1::GenerateResponse TakeEnd(const EndTokens& ends, v1::GenerateResponse* message) {
  v1::GenerateResponse end;
  end.set_output(message->output());
  end.mutable_finish()->Swap(message->mutable_finish());
  message->clear_finish();
  const int others = message->tokens_size() - 1;
  if (others >= 0 && ends.is_unseen(message->tokens(others).id())) {
    end.add_tokens()->Swap(message->mutable_tokens(others));
    message->mutable_tokens()->RemoveLast();
  }
  end.set_index(message->index() + static_cast<uint32_t>(message->tokens_size()));
  return end;
}

// Of every prompt, with nothing said yet.
template <typename Choice>
std::vector<Choice> ChoicesOf(const AnswerShape& shape, const AnswerHead& head) {
  std::vector<Choice> choices;
  for (size_t index = 0; index < shape.choices(); ++index) {
    choices.push_back({.writer = LogprobWriter(shape.chat, shape.tokens_as_ids, shape.silent),
                       .text = ChoiceText(shape.parse, shape.old_reasoning_name, head.id, index)});
  }
  return choices;
}

}  // namespace

AnswerShape::AnswerShape(const GenerationRequest& request)
    : chat(request.names.chat),
      include_usage(request.include_usage),
      continuous_usage(request.continuous_usage),
      logprobs(request.logprobs),
      tokens_as_ids(request.tokens_as_ids),
      token_ids(request.token_ids),
      prompt_ids(request.prompt_ids),
      parse(request.parse),
      old_reasoning_name(request.old_reasoning_name),
      choices_per_prompt(std::max(request.calls.front().n(), 1u)),
      echoes(request.echoes),
      echoes_scores(request.echoes_ids && request.logprobs),
      tells_scores(request.prompt_logprobs),
      no_output(request.no_output),
      prompt_scores(request.prompt_scores),
      ends(EndTokens::Of(request.calls.front().sampling(), request.eos_token_ids)),
      silent(chat ? ends : EndTokens()) {}

StreamAnswer::StreamAnswer(AnswerShape shape, AnswerHead head)
    : shape_(std::move(shape)),
      head_(std::move(head)),
      choices_(ChoicesOf<Choice>(shape_, head_)) {}

std::string StreamAnswer::Event(OrderedJson choices, bool terminal, bool with_prompt) const {
  OrderedJson chunk;
  chunk["id"] = head_.id;
  chunk["object"] = shape_.chat ? "chat.completion.chunk" : "text_completion";
  chunk["created"] = head_.created;
  chunk["model"] = head_.model;
  if (terminal && !fingerprint_.empty()) chunk["system_fingerprint"] = fingerprint_;
  const bool has_usage = choices.empty() || shape_.continuous_usage;
  chunk["choices"] = std::move(choices);
  if (has_usage) chunk["usage"] = usage_.ToJson();
  if (with_prompt) chunk["prompt_token_ids"] = shape_.prompt_ids.front();
  return absl::StrCat("data: ", Dump(chunk), "\n\n");
}

OrderedJson StreamAnswer::ChoiceJson(size_t index, const AnswerPiece* piece,
                                     const v1::GenerateResponse* message) {
  Choice& choice = choices_[index];
  OrderedJson json;
  json["index"] = index;
  if (shape_.chat) {
    json["delta"] = piece == nullptr ? OrderedJson::object() : choice.text.DeltaJson(*piece);
  } else {
    json["text"] = piece == nullptr ? "" : piece->text;
  }
  json["logprobs"] = nullptr;
  if (message != nullptr && shape_.logprobs && message->tokens_size() > 0) {
    json["logprobs"] = choice.writer.ToJson(*message);
  }
  json["finish_reason"] = nullptr;
  if (message != nullptr && message->has_finish()) {
    json["finish_reason"] = choice.text.FinishReason(message->finish().reason());
    json["stop_reason"] = StopReasonJson(message->finish(), choice.stop_id);
  }
  if (shape_.token_ids) {
    json["token_ids"] = message == nullptr ? OrderedJson::array() : TokenIdsJson(*message);
  }
  return json;
}

std::string StreamAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (shape_.no_output) return Events(prompt, WithoutOutput(message));
  if (message.finish().reason() != v1::FINISH_REASON_STOP) return Events(prompt, message);
  v1::GenerateResponse rest = message;
  const v1::GenerateResponse end = TakeEnd(shape_.ends, &rest);
  const bool has_rest = rest.has_started() || rest.tokens_size() > 0 || !rest.text().empty();
  std::string events = has_rest ? Events(prompt, rest) : "";
  events += Events(prompt, end);
  return events;
}

std::string StreamAnswer::Events(size_t prompt, const v1::GenerateResponse& message) {
  const size_t index = prompt * shape_.choices_per_prompt + message.output();
  if (prompt >= shape_.echoes.size() || message.output() >= shape_.choices_per_prompt) return "";
  if (message.has_started()) {
    fingerprint_ = SystemFingerprint(message.started().model_fingerprint());
    for (Choice& choice : choices_) choice.text.Begin(message.started());
  }
  usage_.TakePrompt(message);
  std::string events;
  // The role comes with the first token, not before it: tools take it for that.
  if (!choices_[index].begun) {
    choices_[index].begun = true;
    OrderedJson first = {{"index", index}};
    if (shape_.chat) {
      first["delta"] = {{"role", "assistant"}, {"content", ""}};
    } else {
      first["text"] = shape_.echoes[prompt];
    }
    first["logprobs"] = nullptr;
    if (shape_.echoes_scores) {
      first["logprobs"] = choices_[index].writer.PromptJson(shape_.prompt_scores[prompt]);
    }
    first["finish_reason"] = nullptr;
    if (shape_.token_ids && !shape_.chat) first["prompt_token_ids"] = shape_.prompt_ids[prompt];
    if (shape_.chat || shape_.token_ids || !shape_.echoes[prompt].empty()) {
      events = Event(OrderedJson::array({std::move(first)}), /*terminal=*/false,
                     shape_.token_ids && shape_.chat);
    }
  }
  usage_.TakeTokens(message);
  if (const auto id = shape_.ends.ReasonIn(message)) choices_[index].stop_id = id;
  const AnswerPieces pieces = choices_[index].text.Take(message);
  const bool tells_tokens =
      ((shape_.continuous_usage || shape_.token_ids) && message.tokens_size() > 0) ||
      (shape_.logprobs && shape_.silent.sees_any_of(message));
  if (pieces.empty() && !message.has_finish() && !tells_tokens) return events;
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    events += Event(OrderedJson::array({ChoiceJson(index, &pieces[i], nullptr)}),
                    /*terminal=*/false);
  }
  const AnswerPiece* const last = pieces.empty() ? nullptr : &pieces.back();
  return events +
         Event(OrderedJson::array({ChoiceJson(index, last, &message)}), message.has_finish());
}

std::string StreamAnswer::OnEnd() {
  const std::string usage =
      shape_.include_usage ? Event(OrderedJson::array(), /*terminal=*/true) : "";
  return usage + kDone;
}

std::string StreamAnswer::OnError(const ApiError& error) {
  return absl::StrCat("data: ", ErrorBody(error), "\n\n", kDone);
}

WholeAnswer::WholeAnswer(AnswerShape shape, AnswerHead head)
    : shape_(std::move(shape)),
      head_(std::move(head)),
      choices_(ChoicesOf<Choice>(shape_, head_)) {}

void WholeAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (shape_.no_output && (message.tokens_size() > 0 || !message.text().empty())) {
    return OnMessage(prompt, WithoutOutput(message));
  }
  const size_t index = prompt * shape_.choices_per_prompt + message.output();
  if (prompt >= shape_.echoes.size() || message.output() >= shape_.choices_per_prompt) return;
  if (message.has_started()) {
    fingerprint_ = SystemFingerprint(message.started().model_fingerprint());
    for (Choice& choice : choices_) {
      choice.text.Begin(message.started());
      choice.in_reasoning = message.started().in_reasoning();
    }
  }
  usage_.Take(message);
  Choice& choice = choices_[index];
  if (shape_.echoes_scores && !std::exchange(choice.has_echoed, true)) {
    bytes_ += choice.logprobs.Append(choice.writer.PromptJson(shape_.prompt_scores[prompt]));
  }
  Append(choice.text.Take(message), &choice.pieces);
  if (shape_.parse != nullptr) choice.raw += message.text();
  bytes_ += message.text().size();
  if (shape_.logprobs) bytes_ += choice.logprobs.Append(choice.writer.ToJson(message));
  if (const auto id = shape_.ends.ReasonIn(message)) choice.stop_id = id;
  if (shape_.token_ids) {
    for (const v1::OutputToken& token : message.tokens()) choice.token_ids.push_back(token.id());
    bytes_ += sizeof(OrderedJson) * static_cast<size_t>(message.tokens_size());
  }
  if (message.has_finish()) choice.finish = message.finish();
}

OrderedJson WholeAnswer::PromptJson(size_t prompt) const {
  OrderedJson json = {{"prompt_logprobs", nullptr}, {"prompt_token_ids", nullptr}};
  if (shape_.tells_scores) {
    json["prompt_logprobs"] = PromptLogprobsJson(shape_.prompt_scores[prompt]);
  }
  if (shape_.token_ids) json["prompt_token_ids"] = shape_.prompt_ids[prompt];
  return json;
}

std::string WholeAnswer::Body() const {
  OrderedJson body;
  body["id"] = head_.id;
  body["object"] = shape_.chat ? "chat.completion" : "text_completion";
  body["created"] = head_.created;
  body["model"] = head_.model;
  // By hand where it may be large.
  std::string choices;
  for (size_t index = 0; index < choices_.size(); ++index) {
    const Choice& choice = choices_[index];
    OrderedJson json = {{"index", index}};
    std::string reason = choice.text.FinishReason(choice.finish.reason());
    if (shape_.chat && choice.text.has_broken_call()) {
      const WholeParse parse = ParseWhole(shape_.parse, choice.in_reasoning, choice.raw);
      json["message"] = choice.text.MessageJson(parse.pieces);
      reason = choice.text.FinishReason(choice.finish.reason(), parse.has_calls);
    } else if (shape_.chat) {
      json["message"] = choice.text.MessageJson(choice.pieces);
    } else {
      json["text"] = shape_.echoes[index / shape_.choices_per_prompt] +
                     (choice.pieces.empty() ? "" : choice.pieces.front().text);
    }
    OrderedJson end = {{"finish_reason", reason},
                       {"stop_reason", StopReasonJson(choice.finish, choice.stop_id)}};
    end["token_ids"] = shape_.token_ids ? choice.token_ids : OrderedJson();
    if (!shape_.chat) end.update(PromptJson(index / shape_.choices_per_prompt));
    const std::string logprobs = absl::StrCat(
        "{\"logprobs\":", shape_.logprobs ? choice.logprobs.Text(shape_.chat) : "null", "}");
    absl::StrAppend(&choices, choices.empty() ? "" : ",",
                    Joined(Dump(json), Joined(logprobs, Dump(end))));
  }
  OrderedJson rest = {{"usage", usage_.ToJson()}};
  if (!fingerprint_.empty()) rest["system_fingerprint"] = fingerprint_;
  if (shape_.chat) rest.update(PromptJson(0));
  return Joined(Dump(body), Joined(absl::StrCat("{\"choices\":[", choices, "]}"), Dump(rest)));
}

}  // namespace tutti::gateway
