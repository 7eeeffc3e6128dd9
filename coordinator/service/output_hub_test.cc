#include "coordinator/service/output_hub.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>

#include "base/mutex.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/output_text.h"

namespace tutti::coordinator {
namespace {

// Collects the messages that a client would read.
class Recording : public door::OutputStream {
 public:
  void Write(v1::GenerateResponse response) override {
    const MutexLock lock(&mutex_);
    texts_[response.output()] += response.text();
    if (response.output() == 0) {
      for (const auto& token : response.tokens()) ids_.push_back(token.id());
    }
    if (!response.has_finish()) return;
    finishes_[response.output()] = response.finish();
    tokens_of_end_ = response.tokens_size();
  }
  void Finish(absl::Status status) override { ended_.set_value(std::move(status)); }

  // Waits for the end.
  absl::Status End() { return ended_.get_future().get(); }
  // The text of output 0, or of another.
  std::string text(uint32_t output = 0) {
    const MutexLock lock(&mutex_);
    return texts_[output];
  }
  std::vector<TokenId> ids() {
    const MutexLock lock(&mutex_);
    return ids_;
  }
  v1::Finish finish(uint32_t output = 0) {
    const MutexLock lock(&mutex_);
    return finishes_[output];
  }
  size_t finishes() {
    const MutexLock lock(&mutex_);
    return finishes_.size();
  }
  // Tokens of the message that had the end.
  int tokens_of_end() {
    const MutexLock lock(&mutex_);
    return tokens_of_end_;
  }

 private:
  Mutex mutex_;
  std::map<uint32_t, std::string> texts_ ABSL_GUARDED_BY(mutex_);
  std::vector<TokenId> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::Finish> finishes_ ABSL_GUARDED_BY(mutex_);
  int tokens_of_end_ ABSL_GUARDED_BY(mutex_) = -1;
  std::promise<absl::Status> ended_;
};

class OutputHubTest : public ::testing::Test {
 protected:
  OutputHubTest()
      : model_(LoadDemoModel()),
        hub_(model_->tokenizer.get(), &clock_, [this](RequestId request, CancelCause cause) {
          if (cause == CancelCause::kClientGone) {
            abandoned_.push_back(request);
            return;
          }
          if (!answers_stops_) return;
          stopped_.set_value(request);
          hub_.Finish({.request = request, .cause = FinishCause::kStopString});
        }) {
    hub_.Start();
  }
  ~OutputHubTest() override { hub_.Stop(); }

  std::shared_ptr<Recording> Open(OutputOptions options, int32_t n = 1) {
    auto stream = std::make_shared<Recording>();
    hub_.Open(kRequest, n, std::move(options), stream);
    return stream;
  }
  // Delivers the ids one at a time, as decoding does.
  void Deliver(const std::vector<TokenId>& ids, int32_t output = 0) {
    for (size_t i = 0; i < ids.size(); ++i) {
      DeliverTokens tokens{.request = IdOfOutput(kRequest, output),
                           .index = static_cast<int32_t>(i)};
      tokens.tokens.emplace_back().set_token(ids[i]);
      hub_.Tokens(std::move(tokens));
    }
  }
  std::vector<TokenId> Ids(const std::string& text) {
    const auto ids = model_->tokenizer->Encode(text);
    CHECK(ids.ok());
    return *ids;
  }

  static OutputOptions Stopping(const std::string& stop, bool include) {
    OutputOptions options{.stop = {stop}, .include_stop = include};
    auto matcher = text::StopMatcher::Create(options.stop, include);
    CHECK(matcher.ok());
    options.stop_matcher = *std::move(matcher);
    return options;
  }

  static constexpr RequestId kRequest{1};
  ManualClock clock_;
  std::unique_ptr<ServedModel> model_;
  std::promise<RequestId> stopped_;
  std::atomic<bool> answers_stops_{true};  // the engine's part
  std::vector<RequestId> abandoned_;       // the output thread's, until Stop
  OutputHub hub_;
};

TEST_F(OutputHubTest, TextOfAllTokensArrives) {
  auto stream = Open({.seed = 9});
  const std::string text = "What is 12 + 30? né 你好";
  Deliver(Ids(text));
  hub_.Finish({.request = kRequest,
               .cause = FinishCause::kLength,
               .prompt_tokens = 3,
               .completion_tokens = static_cast<int32_t>(Ids(text).size())});
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->text(), text);
  EXPECT_EQ(stream->ids(), Ids(text));
  EXPECT_EQ(stream->finish().reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(stream->finish().usage().completion_tokens(), Ids(text).size());
  EXPECT_EQ(stream->finish().usage().prompt_tokens(), 3u);
  EXPECT_EQ(stream->finish().seed(), 9u);
  hub_.Stop();  // the stream ends before it is counted as ended
  EXPECT_EQ(hub_.open_streams(), 0);
}

TEST_F(OutputHubTest, StopStringCutsTheTextAndTellsTheEngine) {
  auto stream = Open(Stopping("13 1", false));
  Deliver(Ids("11 12 13 14 15"));
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stopped_.get_future().get(), kRequest);
  EXPECT_EQ(stream->text(), "11 12 ");
  EXPECT_EQ(stream->finish().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stream->finish().stop(), "13 1");
}

TEST_F(OutputHubTest, StopStringMayBeShown) {
  auto stream = Open(Stopping("13 1", true));
  Deliver(Ids("11 12 13 14 15"));
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->text(), "11 12 13 1");
}

TEST_F(OutputHubTest, StopStringsWaitForTheLeastLength) {
  const std::string text = "11 12 13 14 15 13 1";
  for (const bool all : {false, true}) {
    OutputOptions options = Stopping("13 1", false);
    options.min_tokens = static_cast<int64_t>(all ? Ids(text).size() : Ids("11 12 13 14").size());
    OutputText output(model_->tokenizer.get(), options);
    std::string shown;
    for (const TokenId id : Ids(text)) shown += output.Push(id);
    shown += output.Finish();
    EXPECT_EQ(shown, all ? text : "11 12 13 14 15 ");
    EXPECT_EQ(output.stop(), all ? -1 : 0);
  }
}

TEST_F(OutputHubTest, StopTokensShowNoTextButCount) {
  std::vector<TokenId> ids = Ids("42");
  const TokenId end = model_->generation.eos_token_ids.at(0);
  ids.push_back(end);
  auto stream = Open({.stop_token_ids = {end}, .skip_special_tokens = false});
  Deliver(ids);
  hub_.Finish({.request = kRequest, .cause = FinishCause::kStopToken});
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->text(), "42");
  EXPECT_EQ(stream->ids(), ids);
  EXPECT_EQ(stream->finish().reason(), v1::FINISH_REASON_STOP);
}

// Not in a message of its own, as the threads' timing has it.
TEST_F(OutputHubTest, TheEndComesWithTheLastToken) {
  auto stream = Open({});
  DeliverTokens tokens{.request = kRequest, .index = 0, .last = true};
  tokens.tokens.emplace_back().set_token(Ids("4").at(0));
  hub_.Tokens(std::move(tokens));
  hub_.Finish({.request = kRequest, .cause = FinishCause::kLength});
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->text(), "4");
  EXPECT_EQ(stream->tokens_of_end(), 1);
}

TEST_F(OutputHubTest, AStopStringsEndComesWithItsToken) {
  auto stream = Open(Stopping("13 1", false));
  Deliver(Ids("11 12 13 14"));
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->tokens_of_end(), 1);
}

TEST_F(OutputHubTest, ErrorsEndTheStreamAsTheyAre) {
  auto stream = Open({});
  Deliver(Ids("12"));
  hub_.Finish({.request = kRequest,
               .cause = FinishCause::kError,
               .status = absl::UnavailableError("worker w1 (stage 1) was lost")});
  const absl::Status end = stream->End();
  EXPECT_EQ(end.message(), "worker w1 (stage 1) was lost");
}

// The worker was lost between the match and the engine's learning of it.
TEST_F(OutputHubTest, AnErrorAfterTheStopStringIsNoError) {
  answers_stops_ = false;
  OutputOptions options = Stopping("13 1", false);
  options.seed = 5;
  auto stream = Open(std::move(options), 2);
  for (const int32_t output : {0, 1}) Deliver(Ids("11 12 13 14 15"), output);
  for (const int32_t output : {1, 0}) {
    hub_.Finish({.request = IdOfOutput(kRequest, output),
                 .cause = FinishCause::kError,
                 .status = absl::UnavailableError("worker w1 (stage 1) was lost"),
                 .prompt_tokens = 7,
                 .completion_tokens = 9,
                 .cached_prompt_tokens = 4,
                 .guessed = 6,
                 .guessed_right = 3});
  }
  const absl::Status end = stream->End();
  EXPECT_TRUE(end.ok()) << end;
  for (const uint32_t output : {0u, 1u}) {
    EXPECT_EQ(stream->text(output), "11 12 ");
    EXPECT_EQ(stream->finish(output).reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(stream->finish(output).stop(), "13 1");
    EXPECT_EQ(stream->finish(output).seed(), 5 + output);
    EXPECT_LE(stream->finish(output).usage().completion_tokens(), 14u);  // those shown
  }
  EXPECT_EQ(stream->finish().usage().prompt_tokens(), 7u);
  EXPECT_EQ(stream->finish().usage().cached_prompt_tokens(), 4u);
  EXPECT_EQ(stream->finish().usage().guessed_tokens(), 6u);
  EXPECT_EQ(stream->finish().usage().accepted_tokens(), 3u);
  hub_.Stop();
  EXPECT_EQ(hub_.open_streams(), 0);
  EXPECT_TRUE(abandoned_.empty());
}

// Another output of the request that was not finished does fail it.
TEST_F(OutputHubTest, AStoppedOutputDoesNotSaveTheOthers) {
  answers_stops_ = false;
  auto stream = Open(Stopping("13 1", false), 2);
  Deliver(Ids("11 12 13 14 15"), 0);
  Deliver(Ids("11"), 1);
  for (const int32_t output : {0, 1}) {
    hub_.Finish({.request = IdOfOutput(kRequest, output),
                 .cause = FinishCause::kError,
                 .status = absl::UnavailableError("worker w1 (stage 1) was lost")});
  }
  EXPECT_EQ(stream->End().message(), "worker w1 (stage 1) was lost");
  EXPECT_EQ(stream->finish(0).reason(), v1::FINISH_REASON_STOP);
}

TEST_F(OutputHubTest, WhatAClientLeftBehindIsDropped) {
  auto stream = Open({});
  hub_.Forget(kRequest, 1);
  Deliver(Ids("12"));
  hub_.Finish({.request = kRequest, .cause = FinishCause::kLength});
  hub_.Stop();
  EXPECT_EQ(stream->text(), "");
  EXPECT_EQ(hub_.open_streams(), 0);
}

TEST_F(OutputHubTest, OutputsOfOneRequestShareAStreamAndEachHasItsEnd) {
  auto stream = Open({.seed = ~uint64_t{0}}, 3);
  Deliver(Ids("twelve"), 2);
  Deliver(Ids("12"), 0);
  for (const int32_t output : {2, 0, 1}) {
    hub_.Finish({.request = IdOfOutput(kRequest, output),
                 .cause = FinishCause::kLength,
                 .prompt_tokens = 7,
                 .cached_prompt_tokens = 4});
  }
  EXPECT_TRUE(stream->End().ok());
  EXPECT_EQ(stream->text(0), "12");
  EXPECT_EQ(stream->text(1), "");
  EXPECT_EQ(stream->text(2), "twelve");
  ASSERT_EQ(stream->finishes(), 3u);
  uint32_t prompt_tokens = 0, cached = 0;
  for (uint32_t output = 0; output < 3; ++output) {
    const v1::Finish& finish = stream->finish(output);
    EXPECT_EQ(finish.seed(), ~uint64_t{0} + output);  // wraps around
    prompt_tokens += finish.usage().prompt_tokens();
    cached += finish.usage().cached_prompt_tokens();
  }
  EXPECT_EQ(prompt_tokens, 7u);
  EXPECT_EQ(cached, 4u);
  hub_.Stop();
  EXPECT_EQ(hub_.open_streams(), 0);
  EXPECT_TRUE(abandoned_.empty());
}

TEST_F(OutputHubTest, OneFailedOutputEndsTheStreamAndTheOthers) {
  auto stream = Open({}, 3);
  hub_.Finish({.request = IdOfOutput(kRequest, 0), .cause = FinishCause::kLength});
  hub_.Finish({.request = IdOfOutput(kRequest, 1),
               .cause = FinishCause::kError,
               .status = absl::ResourceExhaustedError("full")});
  EXPECT_EQ(stream->End().message(), "full");
  hub_.Finish({.request = IdOfOutput(kRequest, 2),
               .cause = FinishCause::kError,
               .status = absl::CancelledError("the client left")});
  hub_.Stop();
  EXPECT_EQ(abandoned_, std::vector<RequestId>{IdOfOutput(kRequest, 2)});
  EXPECT_EQ(hub_.open_streams(), 0);
}

TEST_F(OutputHubTest, AllOutputsOfAClientThatLeftAreDropped) {
  auto stream = Open({}, 2);
  Deliver(Ids("12"), 1);
  hub_.Finish({.request = kRequest, .cause = FinishCause::kLength});
  hub_.Forget(kRequest, 2);
  hub_.Forget(kRequest, 2);
  hub_.Stop();
  EXPECT_EQ(hub_.open_streams(), 0);
}

}  // namespace
}  // namespace tutti::coordinator
