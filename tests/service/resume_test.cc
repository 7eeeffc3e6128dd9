// An answer cut after every message, and gone on with: together with what came before, the rest is
// the undisturbed answer, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "tests/service/resume_testing.h"

namespace tutti::tests {
namespace {

// Everything of an answer that a cut must not change, as a text; of a stream that breaks its order,
// that it does.
std::string Describe(const std::vector<v1::GenerateResponse>& messages) {
  struct Output {
    uint32_t tokens = 0;
    std::string bits, text, finish;
  };
  std::map<uint32_t, Output> outputs;
  for (const v1::GenerateResponse& message : messages) {
    Output& output = outputs[message.output()];
    if (message.tokens_size() > 0 && message.index() != output.tokens) {
      return absl::StrCat("index ", message.index(), " where ", output.tokens, " was due");
    }
    if (!output.finish.empty()) return "a message after the end";
    output.tokens += static_cast<uint32_t>(message.tokens_size());
    output.text += message.text();
    for (const v1::OutputToken& token : message.tokens()) output.bits += token.SerializeAsString();
    if (!message.has_finish()) continue;
    v1::Finish finish = message.finish();
    finish.clear_timing();
    finish.mutable_usage()->clear_cached_prompt_tokens();
    output.finish = finish.ShortDebugString();
  }
  std::ostringstream all;
  for (const auto& [number, output] : outputs) {
    all << number << ": " << output.tokens << " tokens, text '" << output.text << "', "
        << output.finish << ", bits " << std::hash<std::string>()(output.bits) << "\n";
  }
  return all.str();
}

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() : cluster_({.model_dir = DemoDir(), .layers = {2, 2}}) {}

  static v1::GenerateRequest Ask(uint32_t max_tokens = 20) {
    v1::GenerateRequest request;
    request.set_text("Tell me something: ");
    v1::SamplingParams& sampling = *request.mutable_sampling();
    sampling.set_max_tokens(max_tokens);
    sampling.set_temperature(0);
    sampling.set_ignore_eos(true);
    sampling.set_logprobs(true);
    sampling.set_top_logprobs(2);
    return request;
  }
  static v1::GenerateRequest AskSeeded() {
    v1::GenerateRequest request = Ask();
    request.mutable_sampling()->set_temperature(2);
    request.mutable_sampling()->set_top_k(50);
    return request;
  }

  // The first difference that a cut makes; nothing: it makes none anywhere.
  std::optional<std::string> FindDifference(const v1::GenerateRequest& request) {
    const CutStream whole = ReadTokenByToken(cluster_.inference(), request);
    if (!whole.status.ok()) return whole.status.error_message();
    const std::string expected = Describe(whole.messages);
    for (size_t cut = 1; cut <= whole.messages.size(); ++cut) {
      for (const bool as_digest : {false, true}) {
        const CutStream rest =
            ReadStream(cluster_.inference(), GoOn(request, whole.messages, cut, as_digest));
        const std::string where =
            absl::StrCat("cut after ", cut, as_digest ? " (digest)" : " (ids)", ": ");
        if (!rest.status.ok()) return where + rest.status.error_message();
        if (!rest.messages.empty() && !rest.messages.front().has_started()) {
          return where + "no word of how to go on";
        }
        std::vector<v1::GenerateResponse> joined(whole.messages.begin(),
                                                 whole.messages.begin() + static_cast<int>(cut));
        joined.insert(joined.end(), rest.messages.begin(), rest.messages.end());
        const std::string got = Describe(joined);
        if (got != expected) return absl::StrCat(where, got, " instead of ", expected);
      }
    }
    return std::nullopt;
  }
  void ExpectNoDifference(const v1::GenerateRequest& request) {
    const auto difference = FindDifference(request);
    EXPECT_FALSE(difference.has_value()) << *difference;
  }
  // Stop strings of the undisturbed answer's own text, over the border of two tokens.
  v1::GenerateRequest AskStopping() {
    v1::GenerateRequest request = Ask();
    const CutStream whole = ReadStream(cluster_.inference(), request);
    std::string text;
    for (const auto& message : whole.messages) text += message.text();
    CHECK(text.size() > 12) << text;
    request.mutable_sampling()->add_stop(text.substr(6, 6));
    return request;
  }

  InProcessCluster cluster_;
};

TEST_F(ResumeTest, Greedy) { ExpectNoDifference(Ask()); }

TEST_F(ResumeTest, SeedsThatTheServiceChose) { ExpectNoDifference(AskSeeded()); }

TEST_F(ResumeTest, PenaltiesAndBias) {
  v1::GenerateRequest request = AskSeeded();
  request.mutable_sampling()->set_repetition_penalty(1.3f);
  request.mutable_sampling()->set_presence_penalty(1);
  request.mutable_sampling()->set_frequency_penalty(0.7f);
  (*request.mutable_sampling()->mutable_logit_bias())[20] = 3;
  (*request.mutable_sampling()->mutable_logit_bias())[21] = -3;
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, LimitsOnWhatIsDrawn) {
  v1::GenerateRequest request = AskStopping();
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_ignore_eos(false);
  sampling.set_min_tokens(11);
  for (const char* const word : {"the", "of", "12"}) sampling.add_bad_words(word);
  request.set_cache_salt("salt");
  ExpectNoDifference(request);
  request = AskSeeded();
  for (int32_t id = 0; id < 1000; id += 3) request.mutable_sampling()->add_allowed_token_ids(id);
  request.set_truncate_prompt_tokens(4);
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, AnswersByGrammars) {
  v1::GenerateRequest request = AskSeeded();
  request.mutable_grammar()->set_json_schema(
      R"({"type": "array", "items": {"enum": [1, "two", null]}, "minItems": 2})");
  ExpectNoDifference(request);
  request.mutable_sampling()->set_ignore_eos(false);
  request.mutable_grammar()->set_regex("[0-9]{4}( [a-z]{1,3})*");
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, StopStrings) {
  v1::GenerateRequest request = AskStopping();
  ExpectNoDifference(request);
  request.mutable_sampling()->set_include_stop_str_in_output(true);
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, StopTokensAndTheEndOfAQuestion) {
  v1::GenerateRequest request = Ask();
  request.clear_text();
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("What is 12 + 30?");
  request.mutable_sampling()->set_ignore_eos(false);
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, SeveralOutputs) {
  v1::GenerateRequest request = AskSeeded();
  request.mutable_sampling()->set_max_tokens(8);
  request.set_n(3);
  ExpectNoDifference(request);
}

TEST_F(ResumeTest, LengthsThatTheServiceChose) {
  v1::GenerateRequest request = Ask();
  request.mutable_sampling()->clear_max_tokens();
  const CutStream whole = ReadStream(cluster_.inference(), request);
  ASSERT_TRUE(whole.status.ok());
  const size_t cut = whole.messages.size() - 3;
  const CutStream rest =
      ReadStream(cluster_.inference(), GoOn(request, whole.messages, cut, false));
  std::vector<v1::GenerateResponse> joined(whole.messages.begin(),
                                           whole.messages.begin() + static_cast<int>(cut));
  joined.insert(joined.end(), rest.messages.begin(), rest.messages.end());
  EXPECT_EQ(Describe(joined), Describe(whole.messages));
}

// ---- planted bugs

TEST_F(ResumeTest, FindsAnIndexThatIsOffByOne) {
  const ScopedFailPoint armed("coordinator.resume_off_by_one");
  EXPECT_TRUE(FindDifference(Ask()).has_value());
}

TEST_F(ResumeTest, FindsStopStringsThatAreForgotten) {
  const v1::GenerateRequest request = AskStopping();
  const ScopedFailPoint armed("coordinator.resume_keeps_no_stop_state");
  EXPECT_TRUE(FindDifference(request).has_value());
}

}  // namespace
}  // namespace tutti::tests
