#include "gateway/openai/responses_answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {

ResponsesAnswer::ResponsesAnswer(bool stream, const AnswerShape& shape, const AnswerHead& head,
                                 std::shared_ptr<const OrderedJson> request)
    : stream_(stream),
      parses_(shape.parse != nullptr),
      logprobs_asked_(shape.logprobs),
      head_(head),
      request_(std::move(request)),
      ends_(shape.ends),
      parser_(shape.parse, /*old_reasoning_name=*/false, head.id, /*index=*/0) {}

std::string ResponsesAnswer::Event(std::string_view type, OrderedJson fields) {
  if (!stream_) return "";
  OrderedJson event = {{"type", type}};
  for (auto& [name, value] : fields.items()) event[name] = std::move(value);
  event["sequence_number"] = events_++;
  return absl::StrCat("event: ", absl::string_view(type.data(), type.size()),
                      "\ndata: ", Dump(event), "\n\n");
}

std::string_view ResponsesAnswer::status() const {
  return finish_.reason() == v1::FINISH_REASON_LENGTH ? "incomplete" : "completed";
}

OrderedJson ResponsesAnswer::PartJson(const Item& item) {
  if (item.kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", item.text}};
  return {{"type", "output_text"},
          {"annotations", OrderedJson::array()},
          {"logprobs", item.logprobs},
          {"text", item.text}};
}

// Arguments that broke off are none.
std::string_view ResponsesAnswer::StatusOf(const Item& item, std::string_view status) {
  if (item.kind != Kind::kCall || item.is_open || Json::accept(item.text)) return status;
  return "incomplete";
}

OrderedJson ResponsesAnswer::ItemJson(const Item& item, std::string_view status) {
  OrderedJson json = {{"id", item.id}};
  if (item.kind == Kind::kCall) {
    json["type"] = "function_call";
    json["status"] = StatusOf(item, status);
    json["call_id"] = item.call_id;
    json["name"] = item.name;
    json["arguments"] = item.text;
    return json;
  }
  OrderedJson content = OrderedJson::array();
  if (!item.is_open) content.push_back(PartJson(item));
  const bool is_message = item.kind == Kind::kMessage;
  json["type"] = is_message ? "message" : "reasoning";
  json["status"] = status;
  if (is_message) json["role"] = "assistant";
  if (!is_message) json["summary"] = OrderedJson::array();
  json["content"] = std::move(content);
  return json;
}

OrderedJson ResponsesAnswer::AboutItem() const {
  return {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
}

OrderedJson ResponsesAnswer::AboutPart() const {
  OrderedJson json = AboutItem();
  json["content_index"] = 0;
  return json;
}

std::string ResponsesAnswer::Open(Kind kind, const AnswerPiece* call) {
  std::string events = Close("completed");
  const size_t end = head_.id.find('_');
  std::string name = end == std::string::npos ? head_.id : head_.id.substr(end + 1);
  const bool is_other = std::any_of(items_.begin(), items_.end(),
                                    [kind](const Item& item) { return item.kind == kind; });
  if (is_other) absl::StrAppend(&name, "_", items_.size());
  Item item{.kind = kind, .id = {}, .text = {}, .name = {}, .call_id = {}};
  item.id = (kind == Kind::kMessage ? "msg_" : kind == Kind::kCall ? "fc_" : "rs_") + name;
  if (call != nullptr) {
    item.name = call->text;
    item.call_id = parser_.CallId(call->call);
  }
  items_.push_back(std::move(item));
  events += Event("response.output_item.added", {{"output_index", items_.size() - 1},
                                                 {"item", ItemJson(items_.back(), "in_progress")}});
  if (kind == Kind::kCall) return events;
  OrderedJson part = AboutPart();
  part["part"] = PartJson(items_.back());
  return events + Event("response.content_part.added", std::move(part));
}

std::string ResponsesAnswer::EndOfPart(const Item& item) {
  if (item.kind == Kind::kCall) {
    OrderedJson call = AboutItem();
    call["name"] = item.name;
    call["arguments"] = item.text;
    return Event("response.function_call_arguments.done", std::move(call));
  }
  const bool is_message = item.kind == Kind::kMessage;
  OrderedJson text = AboutPart();
  text["text"] = item.text;
  if (is_message) text["logprobs"] = item.logprobs;
  OrderedJson part = AboutPart();
  part["part"] = PartJson(item);
  std::string events = Event(
      is_message ? "response.output_text.done" : "response.reasoning_text.done", std::move(text));
  return events += Event("response.content_part.done", std::move(part));
}

std::string ResponsesAnswer::Close(std::string_view status) {
  if (items_.empty() || !std::exchange(items_.back().is_open, false)) return "";
  const Item& item = items_.back();
  std::string events = EndOfPart(item);
  return events += Event("response.output_item.done",
                         {{"output_index", items_.size() - 1}, {"item", ItemJson(item, status)}});
}

std::string ResponsesAnswer::Add(const std::string& text, OrderedJson logprobs) {
  Item& item = items_.back();
  item.text += text;
  OrderedJson delta = item.kind == Kind::kCall ? AboutItem() : AboutPart();
  delta["delta"] = text;
  if (item.kind == Kind::kCall) {
    return Event("response.function_call_arguments.delta", std::move(delta));
  }
  if (item.kind == Kind::kReasoning)
    return Event("response.reasoning_text.delta", std::move(delta));
  for (const OrderedJson& logprob : logprobs) item.logprobs.push_back(logprob);
  delta["logprobs"] = std::move(logprobs);
  return Event("response.output_text.delta", std::move(delta));
}

OrderedJson ResponsesAnswer::Response(std::string_view status) const {
  OrderedJson json;
  json["id"] = head_.id;
  json["object"] = "response";
  json["created_at"] = head_.created;
  json["status"] = status;
  json["error"] = nullptr;
  json["incomplete_details"] = nullptr;
  if (status == "incomplete") json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["model"] = head_.model;
  json["output"] = OrderedJson::array();
  json["usage"] = nullptr;
  for (const auto& [name, value] : request_->items()) json[name] = value;
  if (status != "completed" && status != "incomplete") return json;
  for (const Item& item : items_) {
    json["output"].push_back(ItemJson(item, &item == &items_.back() ? status : "completed"));
  }
  const OrderedJson usage = usage_.ToJson();
  const auto prompt = usage["prompt_tokens"].get<int64_t>();
  const auto cached = usage["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
  json["usage"] = {{"input_tokens", prompt},
                   {"input_tokens_details",
                    {{"cached_tokens", cached}, {"cache_write_tokens", prompt - cached}}},
                   {"output_tokens", usage["completion_tokens"]},
                   {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens_}}},
                   {"total_tokens", usage["total_tokens"]}};
  return json;
}

OrderedJson ResponsesAnswer::LogprobsOf(const v1::GenerateResponse& message) const {
  if (!logprobs_asked_ || message.tokens_size() == 0) return OrderedJson::array();
  LogprobWriter writer(/*chat=*/true, /*tokens_as_ids=*/false, ends_);
  OrderedJson json = writer.ToJson(message);
  return json.is_null() ? OrderedJson::array() : json["content"];
}

std::string ResponsesAnswer::Begin() {
  if (std::exchange(begun_, true)) return "";
  std::string events = Event("response.created", {{"response", Response("in_progress")}});
  events += Event("response.in_progress", {{"response", Response("in_progress")}});
  // Where there may be reasoning, the first text says which item is the first.
  return parses_ ? events : events + Open(Kind::kMessage);
}

void ResponsesAnswer::CountReasoning(const AnswerPieces& pieces, int64_t tokens) {
  held_tokens_ += tokens;
  if (pieces.empty()) return;
  // Markup of calls, and the end of a reasoning, bring what follows them.
  const bool reasons = std::all_of(pieces.begin(), pieces.end(), [](const AnswerPiece& piece) {
    return piece.kind == AnswerPiece::Kind::kReasoning;
  });
  const int64_t held = std::exchange(held_tokens_, 0);
  if (reasons) reasoning_tokens_ += held;
}

std::string ResponsesAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (prompt > 0 || message.output() > 0) return "";
  std::string events = Begin();
  usage_.Take(message);
  if (message.has_finish()) finish_ = message.finish();
  if (message.has_started()) parser_.Begin(message.started());
  const AnswerPieces pieces = parser_.Take(message);
  for (const AnswerPiece& piece : pieces) {
    if (piece.kind == AnswerPiece::Kind::kCall) {
      events += Open(Kind::kCall, &piece);
      continue;
    }
    const Kind kind = piece.kind == AnswerPiece::Kind::kContent     ? Kind::kMessage
                      : piece.kind == AnswerPiece::Kind::kReasoning ? Kind::kReasoning
                                                                    : Kind::kCall;
    if (kind != Kind::kCall && !is_last(kind)) events += Open(kind);
    const bool ends = &piece == &pieces.back();
    events += Add(piece.text, ends ? LogprobsOf(message) : OrderedJson::array());
  }
  CountReasoning(pieces, message.tokens_size());
  const bool in_message = is_last(Kind::kMessage);
  if (!pieces.empty() || !in_message) return events;
  // A part of a character, or of a tag.
  OrderedJson logprobs = LogprobsOf(message);
  return logprobs.empty() ? events : events + Add("", std::move(logprobs));
}

std::string ResponsesAnswer::OnEnd() {
  std::string events = Begin();
  if (items_.empty()) events += Open(Kind::kMessage);
  events += Close(status());
  if (!stream_) return Dump(Response(status()));
  return events + Event("response." + std::string(status()), {{"response", Response(status())}});
}

std::string ResponsesAnswer::OnError(const ApiError& error) {
  if (!stream_) return ErrorBody(error);
  OrderedJson response = Response("failed");
  response["error"] = {{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                       {"message", error.message}};
  return Event("response.failed", {{"response", std::move(response)}});
}

}  // namespace tutti::gateway
