#include "coordinator/output_hub.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "coordinator/testing_model.h"

namespace tutti {
namespace {

// Collects what a client would read.
class Recording : public OutputStream {
 public:
  void Write(v1::GenerateResponse response) override {
    std::lock_guard lock(mutex_);
    text_ += response.text();
    for (const auto& token : response.tokens()) ids_.push_back(token.id());
    if (response.has_finish()) finish_ = response.finish();
  }
  void Finish(absl::Status status) override { ended_.set_value(std::move(status)); }

  // Waits for the end.
  absl::Status End() { return ended_.get_future().get(); }
  const std::string& text() const { return text_; }
  const std::vector<TokenId>& ids() const { return ids_; }
  const v1::Finish& finish() const { return finish_; }

 private:
  std::mutex mutex_;
  std::string text_;
  std::vector<TokenId> ids_;
  v1::Finish finish_;
  std::promise<absl::Status> ended_;
};

class OutputHubTest : public ::testing::Test {
 protected:
  OutputHubTest()
      : model_(LoadDemoModel()), hub_(model_->tokenizer.get(), &clock_, [this](RequestId request) {
          stopped_.set_value(request);
          hub_.Finish({.request = request, .cause = FinishCause::kStopString});
        }) {
    hub_.Start();
  }
  ~OutputHubTest() override { hub_.Stop(); }

  std::shared_ptr<Recording> Open(OutputOptions options) {
    auto stream = std::make_shared<Recording>();
    hub_.Open(kRequest, std::move(options), stream);
    return stream;
  }
  // Delivers the ids one at a time, as decoding does.
  void Deliver(const std::vector<TokenId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      DeliverTokens tokens{.request = kRequest, .index = static_cast<int32_t>(i)};
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
    auto matcher = StopMatcher::Create(options.stop, include);
    CHECK(matcher.ok());
    options.stop_matcher = *std::move(matcher);
    return options;
  }

  static constexpr RequestId kRequest{1};
  ManualClock clock_;
  std::unique_ptr<ServedModel> model_;
  std::promise<RequestId> stopped_;
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

TEST_F(OutputHubTest, ErrorsEndTheStreamAsTheyAre) {
  auto stream = Open({});
  Deliver(Ids("12"));
  hub_.Finish({.request = kRequest,
               .cause = FinishCause::kError,
               .status = absl::UnavailableError("worker w1 (stage 1) was lost")});
  const absl::Status end = stream->End();
  EXPECT_EQ(end.message(), "worker w1 (stage 1) was lost");
}

TEST_F(OutputHubTest, WhatAClientLeftBehindIsDropped) {
  auto stream = Open({});
  hub_.Forget(kRequest);
  Deliver(Ids("12"));
  hub_.Finish({.request = kRequest, .cause = FinishCause::kLength});
  hub_.Stop();
  EXPECT_EQ(stream->text(), "");
  EXPECT_EQ(hub_.open_streams(), 0);
}

}  // namespace
}  // namespace tutti
