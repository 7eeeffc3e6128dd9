#include "gateway/openai/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

constexpr char kName[] = "0123456789abcdef0123456789abcdef";
const AnswerHead kChatHead{
    .id = std::string("chatcmpl-") + kName, .created = 1764000000, .model = "m"};

GenerationRequest StreamRequest(bool chat, uint32_t n) {
  GenerationRequest request;
  request.names.chat = chat;
  request.calls.resize(1);
  request.calls[0].set_n(n);
  request.echoes = {chat ? "" : "echo "};
  request.include_usage = true;
  request.stream = true;
  return request;
}

// A service whose texts are a function of the tokens, some of which complete no text, and that puts
// as many tokens into a message as chance will have.
class Service {
 public:
  Service(uint32_t n, uint64_t seed) : seed_(seed) {
    for (uint32_t output = 0; output < n; ++output) {
      auto& tokens = outputs_.emplace_back();
      const uint64_t count = 1 + Draw() % 9;
      for (uint64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(Draw() % 1000));
    }
  }

  // One way in which the messages may come.
  std::vector<v1::GenerateResponse> Messages() {
    std::vector<size_t> at(outputs_.size());
    std::vector<bool> ended(outputs_.size());
    std::vector<v1::GenerateResponse> messages;
    for (size_t open = outputs_.size(); open > 0;) {
      const size_t output = Draw() % outputs_.size();
      if (ended[output]) continue;
      const size_t size = outputs_[output].size();
      const size_t to = at[output] + Draw() % (size - at[output] + 1);
      const bool ends = to == size && Draw() % 2 == 0;
      if (to == at[output] && !ends) continue;
      v1::GenerateResponse& message = messages.emplace_back();
      message.set_output(static_cast<uint32_t>(output));
      message.set_index(static_cast<uint32_t>(at[output]));
      const std::string before = Certain(output, at[output]);
      const std::string after = ends ? Whole(output) : Certain(output, to);
      message.set_text(after.substr(before.size()));
      for (; at[output] < to; ++at[output]) {
        v1::OutputToken* token = message.add_tokens();
        token->set_id(outputs_[output][at[output]]);
        token->set_token(absl::StrCat("<", token->id(), ">"));
        token->set_logprob(-0.5F);
      }
      if (messages.size() == 1) {
        message.mutable_started()->set_resume_token("the service's token");
        message.mutable_started()->set_prompt_tokens(11);
        message.mutable_started()->set_model_fingerprint("fingerprint");
      }
      if (!ends) continue;
      message.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
      if (output == 0) message.mutable_finish()->mutable_usage()->set_cached_prompt_tokens(3);
      ended[output] = true;
      --open;
    }
    return messages;
  }

 private:
  uint64_t Draw() { return RandomBits(seed_, ++draws_, 0); }
  std::string Whole(size_t output) const { return Text(output, outputs_[output].size()); }
  // Every third token is held back until the next.
  std::string Certain(size_t output, size_t tokens) const {
    const auto& ids = outputs_[output];
    return Text(output, tokens > 0 && ids[tokens - 1] % 3 == 0 ? tokens - 1 : tokens);
  }
  std::string Text(size_t output, size_t tokens) const {
    std::string text;
    for (size_t i = 0; i < tokens; ++i) absl::StrAppend(&text, outputs_[output][i], "ü ");
    return text;
  }

  const uint64_t seed_;
  uint64_t draws_ = 0;
  std::vector<std::vector<int32_t>> outputs_;
};

struct Event {
  std::string id;
  std::string data;
};

std::vector<Event> ParsedStream(const std::string& stream) {
  std::vector<Event> events;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    Event& event = events.emplace_back();
    for (const auto piece : absl::StrSplit(part, '\n')) {
      const std::string line(piece);
      if (absl::StartsWith(line, "id: ")) event.id = line.substr(4);
      if (absl::StartsWith(line, "data: ")) event.data = line.substr(6);
    }
  }
  return events;
}

std::vector<Event> EventsOf(const GenerationRequest& request, const AnswerHead& head,
                            EventOptions options,
                            const std::vector<v1::GenerateResponse>& messages) {
  EventStream stream(AnswerShape(request), head, std::move(options));
  std::string sent;
  for (const auto& message : messages) sent += stream.OnMessage(0, message);
  sent += stream.OnEnd();
  EXPECT_FALSE(stream.error().has_value()) << stream.error()->message;
  return ParsedStream(sent);
}

// A client's view of the events, however they are cut.
struct Folded {
  std::map<int, std::string> texts, roles, finishes;
  std::map<int, std::vector<std::string>> tokens;
  std::map<int, std::vector<int>> offsets;
  std::vector<std::string> usages;
  int dones = 0;
  bool operator==(const Folded&) const = default;
};

Folded Fold(const std::vector<Event>& events, const AnswerHead& head) {
  Folded folded;
  for (const Event& event : events) {
    if (event.data == "[DONE]") {
      ++folded.dones;
      continue;
    }
    const Json json = Json::parse(event.data);
    EXPECT_EQ(json["id"], head.id);
    EXPECT_EQ(json["created"], head.created);
    if (json["choices"].empty()) folded.usages.push_back(json["usage"].dump());
    for (const Json& choice : json["choices"]) {
      const int index = choice["index"];
      if (choice.contains("delta")) {
        folded.roles[index] += choice["delta"].value("role", "");
        folded.texts[index] += choice["delta"].value("content", "");
      } else {
        folded.texts[index] += choice["text"];
      }
      if (!choice["finish_reason"].is_null()) folded.finishes[index] += choice["finish_reason"];
      const Json& logprobs = choice["logprobs"];
      if (logprobs.is_null()) continue;
      if (logprobs.contains("content")) {
        for (const Json& token : logprobs["content"])
          folded.tokens[index].push_back(token["token"]);
      } else {
        for (const Json& token : logprobs["tokens"]) folded.tokens[index].push_back(token);
        for (const Json& offset : logprobs["text_offset"]) folded.offsets[index].push_back(offset);
      }
    }
  }
  return folded;
}

EventId Id(const std::string& text) {
  auto parsed = ParseEventId(text);
  EXPECT_TRUE(std::holds_alternative<EventId>(parsed)) << text;
  return std::holds_alternative<EventId>(parsed) ? std::get<EventId>(parsed) : EventId();
}

TEST(EventStream, GoesOnAfterEveryEventAsIfNothingHadHappened) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const uint32_t n = seed % 3 == 0 ? 3 : 1;
    GenerationRequest request = StreamRequest(/*chat=*/seed % 2 == 0, n);
    request.logprobs = seed % 5 == 0;
    request.continuous_usage = seed % 7 == 0;
    Service service(n, seed);
    const auto events = EventsOf(request, kChatHead, {.ids = true}, service.Messages());
    const Folded whole = Fold(events, kChatHead);
    EXPECT_EQ(whole.dones, 1);
    EXPECT_EQ(whole.usages.size(), 1u);
    ASSERT_TRUE(events.back().id.empty());
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      ASSERT_FALSE(events[i].id.empty()) << "event " << i;
      const EventId after = Id(events[i].id);
      EXPECT_EQ(after.name, kName);
      EXPECT_EQ(after.created, kChatHead.created);
      EXPECT_EQ(after.token, "the service's token");
      // The service cuts its messages in another way now.
      const auto rest =
          EventsOf(request, kChatHead, {.ids = true, .after = after}, service.Messages());
      std::vector<Event> all(events.begin(), events.begin() + static_cast<int64_t>(i) + 1);
      all.insert(all.end(), rest.begin(), rest.end());
      EXPECT_EQ(Fold(all, kChatHead), whole) << "seed " << seed << ", after event " << i;
      // And once more, from the first event of the rest.
      if (rest.size() < 2) continue;
      const auto more =
          EventsOf(request, kChatHead, {.ids = true, .after = Id(rest[0].id)}, service.Messages());
      all.resize(i + 2);
      all.insert(all.end(), more.begin(), more.end());
      EXPECT_EQ(Fold(all, kChatHead), whole) << "seed " << seed << ", after event " << i << " + 1";
    }
  }
}

TEST(EventStream, HasIdsOnlyWhereTheyAreAskedForAndFit) {
  Service service(1, 5);
  const auto messages = service.Messages();
  for (const auto& event : EventsOf(StreamRequest(true, 1), kChatHead, {}, messages)) {
    EXPECT_EQ(event.id, "");
  }
  auto without_token = messages;
  without_token[0].mutable_started()->clear_resume_token();
  for (const auto& event :
       EventsOf(StreamRequest(true, 1), kChatHead, {.ids = true}, without_token)) {
    EXPECT_EQ(event.id, "");
  }
  EXPECT_FALSE(MayHaveEventIds(AnswerShape(StreamRequest(true, kEventIdOutputsMax + 1))));
  EXPECT_TRUE(MayHaveEventIds(AnswerShape(StreamRequest(true, kEventIdOutputsMax))));
}

TEST(EventStream, RefusesToGoOnWithAnotherAnswer) {
  Service service(1, 8), other(1, 9);
  const GenerationRequest request = StreamRequest(/*chat=*/true, 1);
  const auto events = EventsOf(request, kChatHead, {.ids = true}, service.Messages());
  const EventId last = Id(events[events.size() - 3].id);
  ASSERT_GT(last.outputs[0].tokens, 0u);
  for (const auto& foreign : {other.Messages(), std::vector<v1::GenerateResponse>()}) {
    EventStream stream(AnswerShape(request), kChatHead, {.ids = true, .after = last});
    std::string sent;
    for (const auto& message : foreign) sent += stream.OnMessage(0, message);
    sent += stream.OnEnd();
    ASSERT_TRUE(stream.error().has_value());
    EXPECT_EQ(stream.error()->status, 400);
    EXPECT_EQ(stream.error()->param, "Last-Event-ID");
    EXPECT_EQ(sent, "");
  }
  EventStream two(AnswerShape(StreamRequest(true, 2)), kChatHead, {.ids = true, .after = last});
  EXPECT_TRUE(two.error().has_value());
}

TEST(EventId, IsRefusedWhereItIsNotWhole) {
  EventIdWriter writer(kName, 1764000000, std::string(120, 't'));
  std::vector<OutputPosition> outputs(1);
  outputs[0].tokens = 1000;
  outputs[0].bytes = 4000;
  const std::string id = writer.Write(outputs, std::nullopt, 0);
  EXPECT_LT(id.size(), 240u) << id;
  EXPECT_TRUE(std::holds_alternative<EventId>(ParseEventId(id)));
  for (size_t i = 0; i < id.size(); ++i) {
    std::string altered = id;
    altered[i] = altered[i] == 'A' ? 'B' : 'A';
    auto parsed = ParseEventId(altered);
    // The last bits of a group of four characters may say nothing.
    if (const auto* same = std::get_if<EventId>(&parsed)) {
      EXPECT_EQ(same->token, std::string(120, 't'));
      EXPECT_EQ(same->outputs[0].tokens, 1000u);
      EXPECT_EQ(same->name, kName);
    } else {
      EXPECT_EQ(std::get<ApiError>(parsed).param, "Last-Event-ID");
    }
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseEventId(id.substr(0, i))));
  }
  for (const char* bad : {"", ".", "a.b", "\xff\xff", "AAAA.AAAAAAAA"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseEventId(bad)));
  }
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseEventId(std::string(1 << 20, 'A'))));
}

TEST(EventId, KeepsNamesOfClients) {
  EventIdWriter writer("my-request_7", 5, "t");
  const EventId id =
      Id(writer.Write(std::vector<OutputPosition>(2), PartOfMessage{1, 2, 3, true, 4}, 1));
  EXPECT_EQ(id.name, "my-request_7");
  EXPECT_EQ(id.outputs.size(), 2u);
  EXPECT_EQ(id.end_events, 1u);
  EXPECT_EQ(id.part, (PartOfMessage{1, 2, 3, true, 4}));
}

}  // namespace
}  // namespace tutti::gateway
