#include "gateway/openai/event_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

constexpr char kEndOfEvent[] = "\n\n";
constexpr std::string_view kDoneEvent = "data: [DONE]";

// Takes the first of a stream of events, with its end.
std::string_view TakeEvent(std::string_view* events) {
  const size_t end = events->find(kEndOfEvent);
  const size_t size = end == std::string_view::npos ? events->size() : end + 2;
  const std::string_view event = events->substr(0, size);
  events->remove_prefix(size);
  return event;
}

bool IsEmpty(const v1::GenerateResponse& message) {
  return message.tokens_size() == 0 && message.text().empty() && !message.has_finish();
}

// Moves so much from the front of `message` to the end of `to`: of the tokens, of the text, and, if
// nothing else is left, the finish.
void Move(uint64_t tokens, uint64_t bytes, bool finish, v1::GenerateResponse* message,
          v1::GenerateResponse* to) {
  to->set_output(message->output());
  const auto count =
      static_cast<int>(std::min<uint64_t>(tokens, static_cast<uint64_t>(message->tokens_size())));
  const uint64_t size = std::min<uint64_t>(bytes, message->text().size());
  if (to->tokens_size() == 0) to->set_index(message->index());
  for (int i = 0; i < count; ++i) {
    to->add_tokens()->Swap(message->mutable_tokens(i));
  }
  message->mutable_tokens()->DeleteSubrange(0, count);
  message->set_index(message->index() + static_cast<uint32_t>(count));
  to->mutable_text()->append(message->text(), 0, size);
  message->mutable_text()->erase(0, size);
  const bool takes_finish =
      finish && message->has_finish() && message->tokens_size() == 0 && message->text().empty();
  if (takes_finish) {
    to->mutable_finish()->Swap(message->mutable_finish());
    message->clear_finish();
  }
  if (message->has_started() && (count > 0 || size > 0 || takes_finish)) {
    to->mutable_started()->Swap(message->mutable_started());
    message->clear_started();
  }
}

std::string_view NameIn(std::string_view id) {
  const size_t end = id.find_first_of("-_");
  return end == std::string_view::npos ? id : id.substr(end + 1);
}

}  // namespace

bool MayHaveEventIds(const AnswerShape& shape) {
  return shape.echoes.size() == 1 && shape.choices() <= kEventIdOutputsMax &&
         shape.prompt_scores.empty();
}

EventStream::EventStream(const AnswerShape& shape, const AnswerHead& head, EventOptions options)
    : head_(head),
      options_(std::move(options)),
      ids_(options_.ids && MayHaveEventIds(shape)),
      answer_(shape, head) {
  if (!ids_ && !options_.after) return;
  outputs_.resize(shape.choices());
  positions_.resize(shape.choices());
  if (!options_.after) return;
  if (options_.after->outputs.size() != outputs_.size()) {
    Fail();
    return;
  }
  const EventId& after = *options_.after;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputPosition& has = after.outputs[i];
    const bool has_part = after.part && after.part->output == i;
    if (has.tokens == 0 && has.bytes == 0 && !has.finished && !has_part) continue;
    outputs_[i].stage = Stage::kHas;
    ++behind_;
  }
}

void EventStream::Fail() {
  if (error_) return;
  error_ = BadRequest(kLastEventId, absl::StrCat(kLastEventId,
                                                 " is of another answer than this request makes: "
                                                 "what was computed again is not what it says"));
}

void EventStream::Advance(const v1::GenerateResponse& message, OutputPosition* at) const {
  for (const v1::OutputToken& token : message.tokens()) at->digest.AddId(token.id());
  at->tokens += static_cast<uint64_t>(message.tokens_size());
  at->bytes += message.text().size();
  at->finished |= message.has_finish();
}

std::string EventStream::WithId(std::string_view event, const std::optional<PartOfMessage>& part,
                                uint64_t end_events) {
  if (!writer_) return std::string(event);
  for (size_t i = 0; i < outputs_.size(); ++i) positions_[i] = outputs_[i].at;
  std::string id = writer_->Write(positions_, part, end_events);
  std::string written;
  written.reserve(id.size() + event.size() + 8);
  written.append("id: ").append(id).append("\n").append(event);
  return written;
}

bool EventStream::DropHas(size_t index, v1::GenerateResponse* message) {
  Output& output = outputs_[index];
  const OutputPosition& has = options_.after->outputs[index];
  v1::GenerateResponse dropped;
  Move(has.tokens - output.at.tokens, has.bytes - output.at.bytes, has.finished, message, &dropped);
  if (!IsEmpty(dropped)) {
    Advance(dropped, &output.at);
    answer_.OnMessage(0, dropped);
  }
  const OutputPosition& at = output.at;
  if (at.tokens < has.tokens || at.bytes < has.bytes || at.finished != has.finished) {
    // More would have to come, and there is something else.
    if (!IsEmpty(*message)) Fail();
    return false;
  }
  if (at.digest.value() != options_.after->digests[index]) Fail();
  return !error_;
}

bool EventStream::CollectPart(size_t index, v1::GenerateResponse* message) {
  v1::GenerateResponse& part = outputs_[index].part;
  const PartOfMessage& has = *options_.after->part;
  Move(has.tokens - static_cast<uint64_t>(part.tokens_size()), has.bytes - part.text().size(),
       has.finishes, message, &part);
  const bool complete = static_cast<uint64_t>(part.tokens_size()) == has.tokens &&
                        part.text().size() == has.bytes && part.has_finish() == has.finishes;
  if (!complete && !IsEmpty(*message)) Fail();
  return complete && !error_;
}

std::string EventStream::Send(const v1::GenerateResponse& message, uint64_t skip) {
  const std::string events = answer_.OnMessage(0, message);
  OutputPosition after = outputs_[message.output()].at;
  Advance(message, &after);
  PartOfMessage part{.output = message.output(),
                     .tokens = static_cast<uint64_t>(message.tokens_size()),
                     .bytes = message.text().size(),
                     .finishes = message.has_finish()};
  std::string sent;
  std::string_view rest = events;
  while (!rest.empty()) {
    const std::string_view event = TakeEvent(&rest);
    const bool last = rest.empty();
    if (last) outputs_[message.output()].at = after;
    if (++part.events <= skip) continue;
    sent += WithId(event, last ? std::nullopt : std::make_optional(part), 0);
  }
  outputs_[message.output()].at = after;
  return sent;
}

std::string EventStream::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (outputs_.empty()) return answer_.OnMessage(prompt, message);
  if (error_ || prompt > 0 || message.output() >= outputs_.size()) return "";
  if (message.has_started() && ids_ && !writer_) {
    const std::string& token = message.started().resume_token();
    // A class of very many layers: such an answer does not go on elsewhere.
    if (!token.empty() && token.size() <= kEventIdTokenBytesMax) {
      writer_.emplace(NameIn(head_.id), head_.created, token);
    }
  }
  if (behind_ == 0) return Send(message, 0);
  v1::GenerateResponse left = message;
  if (outputs_[message.output()].stage != Stage::kNew && !CatchUp(message.output(), &left)) {
    return "";
  }
  if (!IsEmpty(left)) {
    waiting_bytes_ += left.ByteSizeLong();
    waiting_.push_back({.message = std::move(left)});
  }
  if (behind_ > 0) {
    if (waiting_bytes_ > kHeldBehindBytesMax) Fail();
    return "";
  }
  std::string sent;
  for (const Waiting& next : waiting_) sent += Send(next.message, next.skip);
  waiting_.clear();
  return sent;
}

bool EventStream::CatchUp(size_t index, v1::GenerateResponse* message) {
  Output& output = outputs_[index];
  const auto& part = options_.after->part;
  if (output.stage == Stage::kHas) {
    if (!DropHas(index, message)) return false;
    if (part && part->output == index) output.stage = Stage::kHasPart;
  }
  if (output.stage == Stage::kHasPart) {
    if (!CollectPart(index, message)) return false;
    // First: ids of other events would not say that the client has a part of it.
    waiting_.insert(waiting_.begin(), {.message = std::move(output.part), .skip = part->events});
  }
  output.stage = Stage::kNew;
  --behind_;
  return true;
}

std::string EventStream::OnEnd() {
  const std::string events = answer_.OnEnd();
  if (outputs_.empty()) return events;
  if (behind_ > 0) Fail();
  if (error_) return "";
  const uint64_t skip = options_.after ? options_.after->end_events : 0;
  std::string sent;
  std::string_view rest = events;
  for (uint64_t i = 1; !rest.empty(); ++i) {
    const std::string_view event = TakeEvent(&rest);
    if (event.substr(0, kDoneEvent.size()) == kDoneEvent) {
      sent += event;
    } else if (i > skip) {
      sent += WithId(event, std::nullopt, i);
    }
  }
  return sent;
}

}  // namespace tutti::gateway
