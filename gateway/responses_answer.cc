#include "gateway/responses_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

std::string ItemId(const std::string& response_id) {
  const size_t end = response_id.find('_');
  return "msg_" + (end == std::string::npos ? response_id : response_id.substr(end + 1));
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(bool stream, bool logprobs, const AnswerHead& head,
                                 std::shared_ptr<const OrderedJson> request, EndTokens ends)
    : stream_(stream),
      logprobs_asked_(logprobs),
      head_(head),
      item_id_(ItemId(head.id)),
      request_(std::move(request)),
      ends_(std::move(ends)) {}

std::string ResponsesAnswer::Event(std::string_view type, OrderedJson fields) {
  OrderedJson event = {{"type", type}};
  for (auto& [name, value] : fields.items()) event[name] = std::move(value);
  event["sequence_number"] = events_++;
  return absl::StrCat("event: ", absl::string_view(type.data(), type.size()),
                      "\ndata: ", Dump(event), "\n\n");
}

std::string_view ResponsesAnswer::status() const {
  return finish_.reason() == v1::FINISH_REASON_LENGTH ? "incomplete" : "completed";
}

OrderedJson ResponsesAnswer::Part(bool complete) const {
  return {{"type", "output_text"},
          {"annotations", OrderedJson::array()},
          {"logprobs", complete ? logprobs_ : OrderedJson::array()},
          {"text", complete ? text_ : ""}};
}

OrderedJson ResponsesAnswer::Item(std::string_view status) const {
  const bool complete = status != "in_progress";
  OrderedJson content = OrderedJson::array();
  if (complete) content.push_back(Part(true));
  return {{"id", item_id_},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

OrderedJson ResponsesAnswer::AboutPart() const {
  return {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
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
  json["output"].push_back(Item(status));
  const OrderedJson usage = usage_.ToJson();
  json["usage"] = {{"input_tokens", usage["prompt_tokens"]},
                   {"input_tokens_details",
                    {{"cached_tokens", usage["prompt_tokens_details"]["cached_tokens"]}}},
                   {"output_tokens", usage["completion_tokens"]},
                   {"output_tokens_details", {{"reasoning_tokens", 0}}},
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
  if (std::exchange(begun_, true) || !stream_) return "";
  OrderedJson part = AboutPart();
  part["part"] = Part(/*complete=*/false);
  std::string events = Event("response.created", {{"response", Response("in_progress")}});
  events += Event("response.in_progress", {{"response", Response("in_progress")}});
  events +=
      Event("response.output_item.added", {{"output_index", 0}, {"item", Item("in_progress")}});
  return events + Event("response.content_part.added", std::move(part));
}

std::string ResponsesAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (prompt > 0 || message.output() > 0) return "";
  std::string events = Begin();
  usage_.Take(message);
  text_ += message.text();
  OrderedJson logprobs = LogprobsOf(message);
  for (const OrderedJson& logprob : logprobs) logprobs_.push_back(logprob);
  if (message.has_finish()) finish_ = message.finish();
  if (!stream_ || (message.text().empty() && logprobs.empty())) return events;
  OrderedJson delta = AboutPart();
  delta["delta"] = message.text();
  delta["logprobs"] = std::move(logprobs);
  return events + Event("response.output_text.delta", std::move(delta));
}

std::string ResponsesAnswer::OnEnd() {
  if (!stream_) return Dump(Response(status()));
  OrderedJson text = AboutPart();
  text["text"] = text_;
  text["logprobs"] = logprobs_;
  OrderedJson part = AboutPart();
  part["part"] = Part(/*complete=*/true);
  std::string events = Begin();
  events += Event("response.output_text.done", std::move(text));
  events += Event("response.content_part.done", std::move(part));
  events += Event("response.output_item.done", {{"output_index", 0}, {"item", Item(status())}});
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
