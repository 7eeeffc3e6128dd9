#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "gateway/vllm/engine_answer.h"
#include "gateway/vllm/engine_request.h"

namespace tutti::gateway {
namespace {

namespace engine = vllm::grpc::engine;
using ::testing::ElementsAre;
using ::testing::StartsWith;

std::string RefusalOfEngine(const engine::GenerateRequest& asked) {
  const auto request = ReadEngineRequest(asked);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << request.status();
  return std::string(request.status().message());
}

engine::GenerateRequest Asking() {
  engine::GenerateRequest asked;
  asked.set_text("12+30=");
  return asked;
}

TEST(EngineRequestTest, FieldsBecomeOurs) {
  engine::GenerateRequest asked;
  asked.set_request_id("r1");
  asked.mutable_tokenized()->add_input_ids(5);
  asked.mutable_tokenized()->add_input_ids(6);
  engine::SamplingParams& params = *asked.mutable_sampling_params();
  params.set_temperature(0);
  params.set_max_tokens(8);
  params.set_n(2);
  params.set_logprobs(3);
  params.set_seed(-1);
  params.add_stop("x");
  params.add_stop_token_ids(7);
  params.set_truncate_prompt_tokens(1);
  (*params.mutable_logit_bias())[4] = 2;
  const auto read = ReadEngineRequest(asked);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->request_id(), "r1");
  EXPECT_THAT(read->token_ids().ids(), ElementsAre(5, 6));
  EXPECT_EQ(read->n(), 2u);
  EXPECT_EQ(read->truncate_prompt_tokens(), 1u);
  const v1::SamplingParams& sampling = read->sampling();
  EXPECT_EQ(sampling.temperature(), 0);
  EXPECT_EQ(sampling.max_tokens(), 8u);
  EXPECT_TRUE(sampling.logprobs());
  EXPECT_EQ(sampling.top_logprobs(), 3u);
  EXPECT_EQ(sampling.seed(), ~uint64_t{0});
  EXPECT_THAT(sampling.stop(), ElementsAre("x"));
  EXPECT_THAT(sampling.stop_token_ids(), ElementsAre(7));
  EXPECT_EQ(sampling.logit_bias().at(4), 2);
}

TEST(EngineRequestTest, WhatIsNotSetFiltersNothing) {
  const auto read = ReadEngineRequest(Asking());
  ASSERT_TRUE(read.ok()) << read.status();
  const v1::SamplingParams& sampling = read->sampling();
  EXPECT_EQ(sampling.temperature(), 1);
  EXPECT_EQ(sampling.top_p(), 1);
  EXPECT_TRUE(sampling.has_top_k());
  EXPECT_EQ(sampling.top_k(), 0);
  EXPECT_EQ(sampling.repetition_penalty(), 1);
  EXPECT_FALSE(sampling.has_max_tokens());
  EXPECT_FALSE(sampling.has_seed());
  EXPECT_FALSE(sampling.logprobs());
}

TEST(EngineRequestTest, WhatTakesMemoryBeforeTheServiceIsAskedIsBounded) {
  engine::GenerateRequest asked = Asking();
  for (const uint32_t n : {65u, ~0u}) {
    asked.mutable_sampling_params()->set_n(n);
    EXPECT_EQ(RefusalOfEngine(asked),
              absl::StrCat("sampling_params.n is ", n, ", the limit is 64"));
  }
  asked.mutable_sampling_params()->set_n(64);
  asked.set_request_id(std::string(128, 'x'));
  EXPECT_TRUE(ReadEngineRequest(asked).ok());
  asked.set_request_id(std::string(129, 'x'));
  EXPECT_THAT(RefusalOfEngine(asked), StartsWith("request_id is longer than 128 bytes"));
}

TEST(EngineRequestTest, WhatWouldChangeTheAnswerIsRefusedByName) {
  EXPECT_THAT(RefusalOfEngine({}), StartsWith("one of tokenized and text must be set"));
  const auto refused = [](auto change) {
    engine::GenerateRequest asked = Asking();
    change(&asked, asked.mutable_sampling_params());
    return RefusalOfEngine(asked);
  };
  using Asked = engine::GenerateRequest*;
  using Params = engine::SamplingParams*;
  EXPECT_THAT(refused([](Asked, Params p) { p->set_structural_tag("{}"); }),
              StartsWith("sampling_params.structural_tag "));
  EXPECT_THAT(refused([](Asked, Params p) {
                auto* const choice = p->mutable_choice();
                choice->GetReflection()->MutableUnknownFields(choice)->AddVarint(9, 1);
              }),
              StartsWith("sampling_params.choice has field 9"));
  EXPECT_THAT(refused([](Asked, Params p) { p->set_prompt_logprobs(1); }),
              StartsWith("sampling_params.prompt_logprobs "));
  EXPECT_THAT(refused([](Asked, Params p) { p->set_logprobs(-1); }),
              StartsWith("sampling_params.logprobs "));
  EXPECT_THAT(refused([](Asked, Params p) { p->set_truncate_prompt_tokens(-1); }),
              StartsWith("sampling_params.truncate_prompt_tokens "));
  EXPECT_THAT(refused([](Asked, Params p) { p->set_top_k(1u << 31); }),
              StartsWith("sampling_params.top_k "));
  EXPECT_THAT(refused([](Asked, Params p) { p->add_stop_token_ids(1u << 31); }),
              StartsWith("sampling_params.stop_token_ids[0] "));
  EXPECT_THAT(refused([](Asked a, Params) { a->mutable_tokenized()->add_input_ids(1u << 31); }),
              StartsWith("tokenized.input_ids[0] "));
  EXPECT_THAT(refused([](Asked a, Params) { a->mutable_mm_inputs(); }), StartsWith("mm_inputs "));
  EXPECT_THAT(refused([](Asked a, Params) { a->add_extra_mm_inputs(); }),
              StartsWith("extra_mm_inputs "));
  EXPECT_THAT(refused([](Asked a, Params) { a->mutable_media_refs(); }), StartsWith("media_refs "));
  EXPECT_THAT(refused([](Asked a, Params) { a->mutable_kv_transfer_params(); }),
              StartsWith("kv_transfer_params "));
  EXPECT_THAT(refused([](Asked a, Params) { a->set_kv_transfer_params_json("{}"); }),
              StartsWith("kv_transfer_params_json "));
  EXPECT_THAT(refused([](Asked a, Params) { a->set_data_parallel_rank(1); }),
              StartsWith("data_parallel_rank "));
  EXPECT_THAT(refused([](Asked, Params p) {
                p->GetReflection()->MutableUnknownFields(p)->AddVarint(99, 1);
              }),
              StartsWith("sampling_params has field 99"));
}

TEST(EngineRequestTest, WhatTheAnswerMayBe) {
  const auto read = [](auto change) {
    engine::GenerateRequest asked = Asking();
    change(asked.mutable_sampling_params());
    const auto request = ReadEngineRequest(asked);
    EXPECT_TRUE(request.ok()) << request.status();
    return request->grammar();
  };
  using Params = engine::SamplingParams*;
  EXPECT_EQ(read([](Params p) { p->set_json_schema("{}"); }).json_schema(), "{}");
  EXPECT_EQ(read([](Params p) { p->set_regex("a"); }).regex(), "a");
  EXPECT_EQ(read([](Params p) { p->set_grammar("r ::= \"a\""); }).ebnf(), "r ::= \"a\"");
  EXPECT_TRUE(read([](Params p) { p->set_json_object(true); }).has_json_object());
  EXPECT_EQ(read([](Params p) { p->set_json_object(false); }).source_case(),
            v1::Grammar::SOURCE_NOT_SET);
  EXPECT_THAT(read([](Params p) {
                p->mutable_choice()->add_choices("a");
                p->mutable_choice()->add_choices("b");
              })
                  .choice()
                  .texts(),
              ElementsAre("a", "b"));
  const auto words = [](const char* said) {
    return std::string(RenameField(absl::InvalidArgumentError(said), EnginePaths()).message());
  };
  EXPECT_EQ(words("grammar.json_schema: /not: is not served"),
            "sampling_params.json_schema: /not: is not served");
  EXPECT_EQ(words("grammar.choice.texts[1] is empty"),
            "sampling_params.choice.choices[1] is empty");
}

v1::GenerateResponse Said(uint32_t output, std::vector<int32_t> ids) {
  v1::GenerateResponse message;
  message.set_output(output);
  for (const int32_t id : ids) {
    auto* const token = message.add_tokens();
    token->set_id(id);
    token->set_logprob(-0.5f);
    token->add_top()->set_id(id + 1);
  }
  return message;
}

v1::GenerateResponse EndedBy(uint32_t output, v1::FinishReason reason,
                             const std::string& stop = "") {
  v1::GenerateResponse message;
  message.set_output(output);
  message.mutable_finish()->set_reason(reason);
  message.mutable_finish()->set_stop(stop);
  message.mutable_finish()->mutable_usage()->set_cached_prompt_tokens(2);
  return message;
}

v1::GenerateRequest OutputsRequest(uint32_t n) {
  v1::GenerateRequest request;
  request.set_n(n);
  request.mutable_sampling()->set_logprobs(true);
  request.mutable_sampling()->set_top_logprobs(1);
  request.mutable_sampling()->add_stop_token_ids(9);
  return request;
}

TEST(EngineAnswerTest, AStreamIsChunksAndAnEnd) {
  EngineAnswer answer(/*stream=*/true, OutputsRequest(2));
  v1::GenerateResponse started;
  started.mutable_started()->set_prompt_tokens(4);
  EXPECT_TRUE(answer.Take(started).empty());
  const auto chunk = answer.Take(Said(1, {5, 6}));
  ASSERT_EQ(chunk.size(), 1u);
  EXPECT_THAT(chunk[0].chunk().token_ids(), ElementsAre(5, 6));
  EXPECT_EQ(chunk[0].chunk().index(), 1u);
  EXPECT_EQ(chunk[0].chunk().completion_tokens(), 2u);
  EXPECT_EQ(chunk[0].chunk().prompt_tokens(), 4u);
  EXPECT_EQ(chunk[0].chunk().output_logprobs().top_logprobs(1).token_ids(0), 7u);
  v1::GenerateResponse last = Said(1, {9});
  *last.mutable_finish() = EndedBy(1, v1::FINISH_REASON_STOP).finish();
  const auto end = answer.Take(last);
  ASSERT_EQ(end.size(), 2u);
  EXPECT_THAT(end[0].chunk().token_ids(), ElementsAre(9));
  EXPECT_EQ(end[1].complete().finish_reason(), "stop");
  EXPECT_EQ(end[1].complete().matched_token_id(), 9u);
  EXPECT_EQ(end[1].complete().completion_tokens(), 3u);
  EXPECT_EQ(end[1].complete().prompt_tokens(), 4u);
  EXPECT_EQ(end[1].complete().cached_tokens(), 2u);
  EXPECT_EQ(end[1].complete().output_ids_size(), 0);
  EXPECT_TRUE(answer.Take(Said(1, {5})).empty());
}

TEST(EngineAnswerTest, AWholeAnswerHasAllIds) {
  EngineAnswer answer(/*stream=*/false, OutputsRequest(1));
  EXPECT_TRUE(answer.Take(Said(0, {5})).empty());
  EXPECT_TRUE(answer.Take(Said(0, {6, 7})).empty());
  const auto end = answer.Take(EndedBy(0, v1::FINISH_REASON_STOP, "x"));
  ASSERT_EQ(end.size(), 1u);
  EXPECT_THAT(end[0].complete().output_ids(), ElementsAre(5, 6, 7));
  EXPECT_EQ(end[0].complete().output_logprobs().token_logprobs_size(), 3);
  EXPECT_EQ(end[0].complete().matched_stop_str(), "x");
}

TEST(EngineAnswerTest, AFinishWithoutAReasonIsAnAbort) {
  EngineAnswer answer(/*stream=*/true, OutputsRequest(1));
  EXPECT_EQ(answer.Take(EndedBy(0, v1::FINISH_REASON_UNSPECIFIED))[0].complete().finish_reason(),
            "abort");
  EngineAnswer other(/*stream=*/true, OutputsRequest(1));
  EXPECT_EQ(other.Take(EndedBy(0, v1::FINISH_REASON_LENGTH))[0].complete().finish_reason(),
            "length");
}

}  // namespace
}  // namespace tutti::gateway
