// Streams that go on: what a hub that begins in the middle brings is the rest of what one that
// begins at the beginning brings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>

#include "base/id_digest.h"
#include "base/mutex.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/output_hub.h"
#include "coordinator/service/output_text.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

class KeptMessages : public door::OutputStream {
 public:
  void Write(v1::GenerateResponse response) override { messages.push_back(std::move(response)); }
  void Finish(absl::Status status) override { ended_.set_value(std::move(status)); }
  // The messages may be read after it.
  absl::Status End() { return ended_.get_future().get(); }

  std::vector<v1::GenerateResponse> messages;

 private:
  std::promise<absl::Status> ended_;
};

struct Rest {
  std::string text;
  std::vector<TokenId> ids;
  std::string finish;
};

class OutputHubResumeTest : public ::testing::Test {
 protected:
  OutputHubResumeTest()
      : model_(LoadDemoModel()),
        hub_(model_->tokenizer.get(), &clock_, [](RequestId, CancelCause) {}) {
    hub_.Start();
  }
  ~OutputHubResumeTest() override { hub_.Stop(); }

  std::vector<TokenId> Ids(const std::string& text) {
    const auto ids = model_->tokenizer->Encode(text);
    CHECK(ids.ok());
    return *ids;
  }
  static OutputOptions Stopping(const std::vector<std::string>& stops, bool include) {
    OutputOptions options{.stop = stops, .include_stop = include};
    auto matcher = text::StopMatcher::Create(options.stop, include);
    CHECK(matcher.ok());
    options.stop_matcher = *std::move(matcher);
    options.logprobs = true;
    return options;
  }
  // The part of an answer that a client has with the first `count` tokens: their text, or their
  // digest.
  OutputResume Having(const std::vector<TokenId>& ids, size_t count, bool as_digest,
                      const OutputOptions& options) {
    OutputResume resume{.tokens = static_cast<int32_t>(count)};
    const auto text = std::make_shared<OutputText>(model_->tokenizer.get(), options);
    IdDigest digest;
    for (size_t i = 0; i < count; ++i) {
      text->Push(ids[i]);
      digest.Add(ids[i]);
    }
    if (as_digest && count > 0) {
      resume.digest = digest.value();
    } else {
      resume.text = text;
    }
    return resume;
  }
  // Deliveries of ids as the engine delivers them, from `first` on, and the end.
  void Deliver(const std::vector<TokenId>& ids, size_t first, RequestId request) {
    for (size_t i = first; i < ids.size(); ++i) {
      DeliverTokens tokens{.request = request, .index = static_cast<int32_t>(i)};
      tokens.tokens.emplace_back().set_token(ids[i]);
      tokens.tokens.back().set_logprob(-static_cast<float>(i));
      if (i == first) {
        tokens.begun =
            std::make_shared<const OutputBegun>(OutputBegun{.max_tokens = 99, .numerics = "class"});
      }
      hub_.Tokens(std::move(tokens));
    }
    hub_.Finish({.request = request,
                 .cause = FinishCause::kLength,
                 .prompt_tokens = 3,
                 .completion_tokens = static_cast<int32_t>(ids.size())});
  }
  // The stream of an output of which the client has `has` tokens.
  std::shared_ptr<KeptMessages> Stream(const std::vector<TokenId>& ids, size_t has, bool as_digest,
                                       OutputOptions options) {
    if (has > 0) options.resume = {Having(ids, has, as_digest, options)};
    auto stream = std::make_shared<KeptMessages>();
    const RequestId request(++requests_);
    hub_.Open(request, 1, std::move(options), stream);
    Deliver(ids, as_digest ? 0 : has, request);
    return stream;
  }
  // The answer that the client has after all, of whatever it was cut into.
  static Rest Join(const std::vector<v1::GenerateResponse>& messages) {
    Rest rest;
    for (const v1::GenerateResponse& message : messages) {
      if (message.tokens_size() > 0) {
        EXPECT_EQ(message.index(), rest.ids.size());
      }
      rest.text += message.text();
      for (const auto& token : message.tokens()) {
        EXPECT_EQ(token.logprob(), -static_cast<float>(rest.ids.size()));
        rest.ids.push_back(token.id());
      }
      if (message.has_finish()) {
        v1::Finish finish = message.finish();
        finish.clear_timing();
        rest.finish = finish.ShortDebugString();
      }
    }
    return rest;
  }
  // Cuts after every message: the client's part and the rest are the whole.
  void ExpectSameOverEveryCut(const std::vector<TokenId>& ids, const OutputOptions& options) {
    const auto whole = Stream(ids, 0, false, options);
    ASSERT_TRUE(whole->End().ok());
    const Rest expected = Join(whole->messages);
    EXPECT_FALSE(expected.finish.empty());
    for (size_t cut = 0; cut <= expected.ids.size(); ++cut) {
      for (const bool as_digest : {false, true}) {
        SCOPED_TRACE(testing::Message() << "after " << cut << (as_digest ? " digested" : ""));
        const auto second = Stream(ids, cut, as_digest, options);
        const absl::Status end = second->End();
        ASSERT_TRUE(end.ok()) << end;
        std::vector<v1::GenerateResponse> joined(whole->messages.begin(),
                                                 whole->messages.begin() + static_cast<int>(cut));
        joined.insert(joined.end(), second->messages.begin(), second->messages.end());
        const Rest rest = Join(joined);
        EXPECT_EQ(rest.text, expected.text);
        EXPECT_EQ(rest.ids, expected.ids);
        EXPECT_EQ(rest.finish, expected.finish);
      }
    }
  }

  ManualClock clock_;
  std::unique_ptr<ServedModel> model_;
  uint64_t requests_ = 0;
  OutputHub hub_;
};

TEST_F(OutputHubResumeTest, TextGoesOnWhereItWasCut) {
  ExpectSameOverEveryCut(Ids("The answer is 42, as 12 + 30 is."), Stopping({}, false));
}

TEST_F(OutputHubResumeTest, CharactersOfManyBytesGoOverTheCut) {
  ExpectSameOverEveryCut(Ids("żółć \xf0\x9f\x8c\x8d 漢字 \xf0\x9f\x91\xa9\xe2\x80\x8d"),
                         Stopping({}, false));
}

TEST_F(OutputHubResumeTest, StopStringsAreFoundOverTheCut) {
  const std::vector<TokenId> ids = Ids("abc abd abcd efgh");
  for (const bool include : {false, true}) {
    ExpectSameOverEveryCut(ids, Stopping({"abcd"}, include));
    ExpectSameOverEveryCut(ids, Stopping({"bd a", "efg"}, include));
    ExpectSameOverEveryCut(ids, Stopping({"abcde"}, include));
  }
}

TEST_F(OutputHubResumeTest, OtherTokensThanTheDigestsAreLostData) {
  const std::vector<TokenId> ids = Ids("abc abd abcd efgh");
  std::vector<TokenId> others = ids;
  others[1] = ids[1] + 1;
  OutputOptions options = Stopping({}, false);
  options.resume = {Having(others, 3, true, options)};
  auto stream = std::make_shared<KeptMessages>();
  hub_.Open(RequestId(1000), 1, options, stream);
  Deliver(ids, 0, RequestId(1000));
  const absl::Status end = stream->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(end.message()), HasSubstr("resume.outputs[0]"));
  EXPECT_TRUE(stream->messages.empty());
  // So is an output that ends before them.
  options.resume = {Having(ids, 3, true, options)};
  stream = std::make_shared<KeptMessages>();
  hub_.Open(RequestId(2000), 1, options, stream);
  Deliver({ids[0], ids[1]}, 0, RequestId(2000));
  EXPECT_EQ(stream->End().code(), absl::StatusCode::kDataLoss);
}

TEST_F(OutputHubResumeTest, OutputsGoOnEachWhereItWas) {
  const std::vector<TokenId> ids = Ids("abc abd abcd efgh");
  OutputOptions options = Stopping({}, false);
  options.resume = {
      Having(ids, 2, false, options), {.finished = true}, Having(ids, 3, true, options)};
  auto stream = std::make_shared<KeptMessages>();
  hub_.Open(RequestId(10), 3, options, stream);
  Deliver(ids, 2, RequestId(10));
  Deliver(ids, 0, RequestId(12));
  ASSERT_TRUE(stream->End().ok());
  std::map<uint32_t, size_t> tokens, finishes;
  for (const auto& message : stream->messages) {
    tokens[message.output()] += static_cast<size_t>(message.tokens_size());
    finishes[message.output()] += message.has_finish();
    if (!message.has_finish()) continue;
    EXPECT_EQ(message.finish().usage().completion_tokens(), ids.size());
    EXPECT_EQ(message.finish().usage().prompt_tokens(), message.output() == 0 ? 3u : 0u);
  }
  EXPECT_EQ(tokens, (std::map<uint32_t, size_t>{{0, ids.size() - 2}, {2, ids.size() - 3}}));
  EXPECT_EQ(finishes, (std::map<uint32_t, size_t>{{0, 1}, {2, 1}}));
}

TEST_F(OutputHubResumeTest, AClientThatHasAllHearsTheEndOnly) {
  OutputOptions options = Stopping({}, false);
  options.resume = {{.finished = true}, {.finished = true}};
  auto stream = std::make_shared<KeptMessages>();
  hub_.Open(RequestId(10), 2, options, stream);
  EXPECT_TRUE(stream->End().ok());
  EXPECT_TRUE(stream->messages.empty());
}

TEST_F(OutputHubResumeTest, TheFirstMessageSaysHowToGoOn) {
  const auto tokens = std::make_shared<const ResumeTokens>(std::string(32, 'k'));
  OutputOptions options = Stopping({}, false);
  StreamBeginning beginning{.tokens = tokens, .fingerprint = "print", .prompt_tokens = 3};
  beginning.claims.seed = 7;
  options.beginning = std::make_shared<const StreamBeginning>(beginning);
  const auto stream = Stream(Ids("abc abd"), 0, false, options);
  ASSERT_TRUE(stream->End().ok());
  for (const auto& message : stream->messages) {
    EXPECT_EQ(message.has_started(), &message == &stream->messages.front());
  }
  const v1::Started& started = stream->messages.front().started();
  EXPECT_EQ(started.seed(), 7u);
  EXPECT_EQ(started.prompt_tokens(), 3u);
  EXPECT_EQ(started.model_fingerprint(), "print");
  EXPECT_EQ(started.numerics_class(), "class");
  const auto claims = tokens->Open(started.resume_token());
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(claims->max_tokens, 99);
  EXPECT_EQ(claims->numerics, "class");
}

}  // namespace
}  // namespace tutti::coordinator
