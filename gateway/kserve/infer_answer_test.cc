#include "gateway/kserve/infer_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "door/limits.h"
#include "gateway/kserve/infer_counts.h"
#include "gateway/kserve/model_facts.h"

namespace tutti::gateway {
namespace {

using inference::ModelInferResponse;
using ::testing::ElementsAre;

v1::GenerateResponse Said(uint32_t output, const std::string& text, int32_t id, float logprob) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_text(text);
  auto* const token = message.add_tokens();
  token->set_id(id);
  token->set_logprob(logprob);
  token->set_token(text);
  return message;
}

v1::GenerateResponse Ended(uint32_t output, v1::FinishReason reason) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.mutable_finish()->set_reason(reason);
  message.mutable_finish()->mutable_timing()->set_total_ms(5);
  return message;
}

std::vector<std::string> Texts(const ModelInferResponse& response, const std::string& name) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() != name) continue;
    std::vector<std::string> texts;
    std::string_view raw = response.raw_output_contents(i);
    while (!raw.empty()) {
      uint32_t length = 0;
      std::memcpy(&length, raw.data(), sizeof(length));
      texts.emplace_back(raw.substr(sizeof(length), length));
      raw.remove_prefix(sizeof(length) + length);
    }
    EXPECT_THAT(response.outputs(i).shape(), ElementsAre(static_cast<int64_t>(texts.size())));
    return texts;
  }
  return {"no such tensor"};
}

bool IsFinal(const ModelInferResponse& response) {
  return response.parameters().at("triton_final_response").bool_param();
}

InferRequest Asked(uint32_t n = 1) {
  InferRequest request;
  request.model = "demo";
  request.id = "7";
  request.stream = true;
  request.wanted = {"text_output"};
  request.call.set_n(n);
  request.call.set_text("prompt ");
  return request;
}

std::vector<ModelInferResponse> Take(InferAnswer* answer, const v1::GenerateResponse& message) {
  auto taken = answer->Take(message);
  EXPECT_TRUE(taken.ok()) << taken.status();
  return *std::move(taken);
}

TEST(InferAnswerTest, AFailureIsCutBetweenLetters) {
  std::string words = "a";
  while (words.size() < 4000) words += "\xC3\xA9";
  const std::string said = InferAnswer(Asked()).Fail(absl::InternalError(words)).error_message();
  EXPECT_EQ(said, words.substr(0, door::kErrorTextBytesMax - 1));
}

TEST(InferAnswerTest, AWholeAnswersLogprobsCountAsTheyAreKept) {
  InferRequest request = Asked();
  request.stream = false;
  request.wanted = {"text_output", "logprobs"};
  InferAnswer answer(request);
  v1::GenerateResponse message = Said(0, "", 10, -0.5f);
  // Six bytes of JSON for each of the message's.
  message.mutable_tokens(0)->set_token(std::string(1 << 20, '\x01'));
  int taken = 0;
  while (taken < 64 && answer.Take(message).ok()) ++taken;
  EXPECT_EQ(taken, 10);  // of 6 MiB each, within 64 MiB
}

TEST(InferAnswerTest, AStreamHasAResponseForEveryMessage) {
  InferAnswer answer(Asked());
  v1::GenerateResponse started;
  started.mutable_started()->set_prompt_tokens(4);
  EXPECT_TRUE(Take(&answer, started).empty());
  const auto first = Take(&answer, Said(0, "4", 10, -0.5f));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].id(), "7");
  EXPECT_EQ(first[0].model_name(), "demo");
  EXPECT_FALSE(IsFinal(first[0]));
  EXPECT_THAT(Texts(first[0], "text_output"), ElementsAre("4"));
  EXPECT_FALSE(answer.complete());
  const auto last = Take(&answer, Ended(0, v1::FINISH_REASON_STOP));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_TRUE(IsFinal(last[0]));
  EXPECT_THAT(Texts(last[0], "text_output"), ElementsAre(""));
  EXPECT_TRUE(answer.complete());
  EXPECT_TRUE(answer.TakeFinal().empty());
}

TEST(InferAnswerTest, AnEmptyFinalResponseWhereItIsAskedFor) {
  InferRequest request = Asked();
  request.empty_final = true;
  InferAnswer answer(request);
  EXPECT_FALSE(IsFinal(Take(&answer, Ended(0, v1::FINISH_REASON_STOP))[0]));
  const auto final_one = answer.TakeFinal();
  ASSERT_EQ(final_one.size(), 1u);
  EXPECT_EQ(final_one[0].outputs_size(), 0);
  EXPECT_EQ(final_one[0].id(), "7");
  EXPECT_TRUE(IsFinal(final_one[0]));
}

TEST(InferAnswerTest, AWholeAnswerHasThePromptInFrontWhereItIsWanted) {
  InferRequest request = Asked(2);
  request.stream = false;
  request.prepend_input = true;
  request.wanted.insert("finish_reason");
  InferAnswer answer(request);
  EXPECT_TRUE(Take(&answer, Said(1, "b", 2, 0)).empty());
  EXPECT_TRUE(Take(&answer, Said(0, "a", 1, 0)).empty());
  EXPECT_TRUE(Take(&answer, Said(0, "c", 3, 0)).empty());
  EXPECT_TRUE(Take(&answer, Ended(1, v1::FINISH_REASON_LENGTH)).empty());
  const auto whole = Take(&answer, Ended(0, v1::FINISH_REASON_STOP));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_THAT(Texts(whole[0], "text_output"), ElementsAre("prompt ac", "prompt b"));
  EXPECT_THAT(Texts(whole[0], "finish_reason"), ElementsAre("stop", "length"));
  EXPECT_TRUE(IsFinal(whole[0]));
}

TEST(InferAnswerTest, OutputsOfAStreamHaveTheirElements) {
  InferRequest request = Asked(2);
  request.wanted = {"text_output", "finish_reason", "num_output_tokens"};
  InferAnswer answer(request);
  const auto first = Take(&answer, Said(1, "b", 2, 0));
  EXPECT_THAT(Texts(first[0], "text_output"), ElementsAre("", "b"));
  EXPECT_THAT(Texts(first[0], "finish_reason"), ElementsAre("None", "None"));
  EXPECT_THAT(Texts(first[0], "cumulative_logprob"), ElementsAre("no such tensor"));
  EXPECT_EQ(first[0].raw_output_contents(2), std::string("\0\0\0\0\1\0\0\0", 8));
}

TEST(InferAnswerTest, LogProbabilitiesAreVllms) {
  InferRequest request = Asked();
  request.wanted = {"logprobs", "cumulative_logprob"};
  InferAnswer answer(request);
  v1::GenerateResponse message = Said(0, "4", 10, -0.5f);
  auto* const top = message.mutable_tokens(0)->add_top();
  top->set_id(11);
  top->set_logprob(-0.25f);
  top->set_token("5");
  const auto said = Take(&answer, message);
  EXPECT_THAT(Texts(said[0], "logprobs"),
              ElementsAre(R"([{"10":{"logprob":-0.5,"rank":null,"decoded_token":"4"},)"
                          R"("11":{"logprob":-0.25,"rank":1,"decoded_token":"5"}}])"));
  EXPECT_THAT(Texts(Take(&answer, Ended(0, v1::FINISH_REASON_STOP))[0], "logprobs"),
              ElementsAre("[]"));
}

TEST(InferAnswerTest, AFailureSaysWhose) {
  const InferAnswer answer(Asked());
  const auto failure = answer.Fail(absl::InvalidArgumentError("max_tokens is 0"));
  EXPECT_EQ(failure.error_message(), "max_tokens is 0");
  EXPECT_EQ(failure.infer_response().id(), "7");
  EXPECT_FALSE(answer.Fail(absl::InternalError("")).error_message().empty());
}

TEST(ModelFactsTest, TensorsAreThoseOfRequests) {
  const auto config = ConfigOfModel("demo").config();
  EXPECT_TRUE(config.model_transaction_policy().decoupled());
  EXPECT_EQ(config.input(0).name(), "text_input");
  EXPECT_FALSE(config.input(0).optional());
  const auto metadata = DescribeModel("demo");
  ASSERT_EQ(metadata.inputs_size(), config.input_size());
  for (int i = 0; i < metadata.inputs_size(); ++i) {
    EXPECT_TRUE(IsInputTensor(metadata.inputs(i).name()));
    EXPECT_EQ(config.input(i).optional(), i > 0);
  }
  EXPECT_TRUE(absl::IsNotFound(CheckModel("other", "", "demo")));
  EXPECT_TRUE(absl::IsNotFound(CheckModel("demo", "2", "demo")));
  EXPECT_TRUE(CheckModel("demo", kModelVersion, "demo").ok());
}

TEST(InferCountsTest, TimesAreNanoseconds) {
  InferCounts counts;
  v1::Timing timing;
  timing.set_queue_ms(2);
  timing.set_total_ms(5);
  counts.Add(absl::OkStatus(), std::chrono::milliseconds(6), timing, 1000);
  counts.Add(absl::InternalError("no"), std::chrono::milliseconds(1), {}, 2000);
  const auto stats = counts.Describe("demo").model_stats(0);
  EXPECT_EQ(stats.inference_count(), 1u);
  EXPECT_EQ(stats.last_inference(), 2000u);
  EXPECT_EQ(stats.inference_stats().success().ns(), 6'000'000u);
  EXPECT_EQ(stats.inference_stats().queue().ns(), 2'000'000u);
  EXPECT_EQ(stats.inference_stats().compute_infer().ns(), 3'000'000u);
  EXPECT_EQ(stats.inference_stats().fail().count(), 1u);
}

}  // namespace
}  // namespace tutti::gateway
