#include "gateway/kserve/infer_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/json_text.h"
#include "gateway/kserve/infer_testing.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

InferRequest Read(const inference::ModelInferRequest& asked, bool in_stream = true) {
  auto request = ReadInferRequest(asked, in_stream, /*vocabulary=*/1000);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : InferRequest();
}

std::string Refusal(const inference::ModelInferRequest& asked, bool in_stream = true) {
  const auto request = ReadInferRequest(asked, in_stream, /*vocabulary=*/1000);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << request.status();
  return std::string(request.status().message());
}

inference::ModelInferRequest WithSampling(const std::string& json) {
  auto asked = Asking("12+30=");
  AddTexts("sampling_parameters", {json}, &asked);
  return asked;
}

TEST(InferRequestTest, NamesInRefusalsAreCutBetweenLetters) {
  // A letter of two bytes lies across the 64th.
  std::string name = "a", shown = "a";
  for (int i = 0; i < 40; ++i) name += "\xC3\xA9";
  for (int i = 0; i < 31; ++i) shown += "\xC3\xA9";
  auto asked = Asking("hello");
  AddNumber(name, "BOOL", true, &asked);
  EXPECT_THAT(Refusal(asked), StartsWith(shown + " is no input tensor"));
  asked = Asking("hello");
  asked.add_outputs()->set_name(name);
  EXPECT_THAT(Refusal(asked), StartsWith(shown + " is no output tensor"));
  asked = Asking("hello");
  (*asked.mutable_parameters())[name].set_bool_param(true);
  EXPECT_THAT(Refusal(asked), HasSubstr(shown + " is no field"));
  EXPECT_THAT(Refusal(WithSampling("{\"" + name + "\": 1}")), HasSubstr(shown + " is no field"));
  asked = Asking("hello");
  AddInput("seed", name, 1, "x", &asked);
  EXPECT_THAT(Refusal(asked), HasSubstr("a" + shown.substr(1, 14) + ", which"));
  asked = Asking("hello");
  AddInput(std::string(1 << 20, 'x'), "NONE", 1, "", &asked);
  EXPECT_LT(Refusal(asked).size(), 200u);
}

TEST(InferRequestTest, AnUnsignedSeedIsItsBits) {
  auto asked = Asking("hello");
  AddNumber("random_seed", "UINT64", ~uint64_t{0}, &asked);
  EXPECT_EQ(Read(asked).call.sampling().seed(), ~uint64_t{0});
}

TEST(InferRequestTest, TheOnlyResponseIsTheLast) {
  auto asked = Asking("hello");
  (*asked.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  EXPECT_TRUE(Read(asked, /*in_stream=*/true).empty_final);
  EXPECT_FALSE(Read(asked, /*in_stream=*/false).empty_final);
}

TEST(InferRequestTest, MoreTextsThanTheShapeSaysAreRefused) {
  auto asked = Asking("hello");
  AddTexts("stop_words", {"a", "b"}, &asked);
  asked.mutable_inputs(1)->set_shape(0, 1);
  EXPECT_THAT(Refusal(asked), StartsWith("stop_words has contents that do not fit"));
  // One more than the shape says, then bytes that are no text: nobody reads them.
  AddTexts("bad_words", {"a"}, &asked);
  asked.mutable_inputs(1)->set_shape(0, 2);
  *asked.mutable_raw_input_contents(2) += std::string("\0\0\0\0\1", 5);
  EXPECT_THAT(Refusal(asked), StartsWith("bad_words has contents that do not fit"));
}

TEST(InferRequestTest, TensorsOfVllmsBackend) {
  // Numbers as load generators write them.
  auto asked = WithSampling(
      R"({"max_tokens": "128", "min_tokens": "3", "temperature": "0.5", "top_k": 4,
          "ignore_eos": "true",
          "stop": ["a", "b"], "n": 2, "seed": 9, "logit_bias": {"5": -1}})");
  AddNumber("stream", "BOOL", true, &asked);
  AddNumber("exclude_input_in_output", "BOOL", true, &asked);
  AddNumber("return_finish_reason", "BOOL", true, &asked);
  const InferRequest request = Read(asked);
  EXPECT_EQ(request.id, "7");
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.prepend_input);
  EXPECT_THAT(request.wanted, ElementsAre("finish_reason", "text_output"));
  EXPECT_EQ(request.call.model(), "demo");
  EXPECT_EQ(request.call.text(), "12+30=");
  EXPECT_EQ(request.call.n(), 2);
  EXPECT_EQ(request.call.request_id(), "");  // clients use the same again
  const v1::SamplingParams& sampling = request.call.sampling();
  EXPECT_EQ(sampling.max_tokens(), 128);
  EXPECT_EQ(sampling.min_tokens(), 3);
  EXPECT_EQ(sampling.temperature(), 0.5f);
  EXPECT_EQ(sampling.top_k(), 4);
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_THAT(sampling.stop(), ElementsAre("a", "b"));
  EXPECT_EQ(sampling.seed(), 9);
  EXPECT_EQ(sampling.logit_bias().at(5), -1);
  EXPECT_FALSE(sampling.has_top_p());
}

TEST(InferRequestTest, TensorsOfTheEnsemble) {
  auto asked = Asking("a");
  AddNumber("max_tokens", "INT32", int32_t{5}, &asked);
  AddNumber("min_length", "INT32", int32_t{2}, &asked);
  AddNumber("temperature", "FP32", 0.25f, &asked);
  AddNumber("random_seed", "UINT64", uint64_t{77}, &asked);
  AddNumber("beam_width", "INT32", int32_t{1}, &asked);
  AddNumber("pad_id", "INT32", int32_t{0}, &asked);
  AddTexts("stop_words", {"x", "yz"}, &asked);
  AddTexts("bad_words", {""}, &asked);
  const InferRequest request = Read(asked);
  const v1::SamplingParams& sampling = request.call.sampling();
  EXPECT_EQ(sampling.max_tokens(), 5);
  EXPECT_EQ(sampling.min_tokens(), 2);
  EXPECT_EQ(sampling.temperature(), 0.25f);
  EXPECT_EQ(sampling.seed(), 77);
  EXPECT_THAT(sampling.stop(), ElementsAre("x", "yz"));
  EXPECT_THAT(sampling.bad_words(), ElementsAre());
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.prepend_input);
}

TEST(InferRequestTest, AnEndOfTheCallersOwnIsTheOnlyOne) {
  auto asked = Asking("a");
  AddNumber("end_id", "INT32", int32_t{12}, &asked);
  const InferRequest request = Read(asked);
  EXPECT_TRUE(request.call.sampling().ignore_eos());
  EXPECT_THAT(request.call.sampling().stop_token_ids(), ElementsAre(12));
  auto none = Asking("a");
  AddNumber("end_id", "INT32", int32_t{1048576}, &none);
  EXPECT_THAT(Read(none).call.sampling().stop_token_ids(), ElementsAre());
  EXPECT_TRUE(Read(none).call.sampling().ignore_eos());
}

TEST(InferRequestTest, ContentsByTypeAreAsRawOnes) {
  inference::ModelInferRequest asked;
  asked.set_model_name("demo");
  auto* text = asked.add_inputs();
  text->set_name("text_input");
  text->set_datatype("BYTES");
  text->add_shape(1);
  text->mutable_contents()->add_bytes_contents("hello");
  auto* tokens = asked.add_inputs();
  tokens->set_name("max_tokens");
  tokens->set_datatype("INT32");
  tokens->add_shape(1);
  tokens->add_shape(1);
  tokens->mutable_contents()->add_int_contents(3);
  const InferRequest request = Read(asked);
  EXPECT_EQ(request.call.text(), "hello");
  EXPECT_EQ(request.call.sampling().max_tokens(), 3);
}

TEST(InferRequestTest, WithoutAWordTheAnswerIsSixteenTokens) {
  EXPECT_EQ(Read(Asking("a")).call.sampling().max_tokens(), 16);
}

TEST(InferRequestTest, ParametersOfTheRequest) {
  auto asked = Asking("a");
  auto& parameters = *asked.mutable_parameters();
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["timeout"].set_int64_param(1500);
  parameters["priority"].set_uint64_param(3);
  parameters["temperature"].set_double_param(0.5);
  const InferRequest request = Read(asked);
  EXPECT_TRUE(request.empty_final);
  EXPECT_EQ(request.timeout, Duration(std::chrono::microseconds(1500)));
  EXPECT_EQ(request.call.priority(), 3);
  EXPECT_EQ(request.call.sampling().temperature(), 0.5f);
  parameters["sequence_id"].set_int64_param(1);
  EXPECT_THAT(Refusal(asked), StartsWith("sequence_id "));
}

TEST(InferRequestTest, LogProbabilities) {
  auto asked = WithSampling(R"({"logprobs": 2})");
  EXPECT_TRUE(Read(asked).call.sampling().logprobs());
  EXPECT_EQ(Read(asked).call.sampling().top_logprobs(), 2);
  auto sum = Asking("a");
  AddNumber("return_cumulative_logprob", "BOOL", true, &sum);
  EXPECT_TRUE(Read(sum).call.sampling().logprobs());
}

TEST(InferRequestTest, WhatWouldChangeTheAnswerIsRefusedByName) {
  for (const char* json :
       {R"({"prompt_logprobs": 1})", R"({"structured_outputs": "[]"})", R"({"lora_name": "a"})",
        R"({"guided_decoding": 3})", R"({"guided_json": "{\"a\": 1}"})", R"({"no_such_field": 1})",
        R"({"model": "a"})", R"({"use_beam_search": true})", R"({"temperature": "hot"})",
        R"({"n": 0})", R"({"top_k": 1.5})", R"({"logits_processors": ["a"]})"}) {
    const std::string name = Json::parse(json).begin().key();
    EXPECT_THAT(Refusal(WithSampling(json)), StartsWith("sampling_parameters." + name + " "));
  }
  EXPECT_THAT(Refusal(WithSampling("[1]")), StartsWith("sampling_parameters: "));
  for (const char* name : {"image", "decoder_text_input", "guided_decoding_guide", "lora_config"}) {
    auto asked = Asking("a");
    AddTexts(name, {"x"}, &asked);
    EXPECT_THAT(Refusal(asked), StartsWith(std::string(name) + " "));
  }
  for (const char* name : {"return_log_probs", "return_context_logits"}) {
    auto asked = Asking("a");
    AddNumber(name, "BOOL", false, &asked);
    EXPECT_TRUE(ReadInferRequest(asked, true, 1000).ok());
    auto wished = Asking("a");
    AddNumber(name, "BOOL", true, &wished);
    EXPECT_THAT(Refusal(wished), StartsWith(std::string(name) + " "));
  }
  auto beams = Asking("a");
  AddNumber("beam_width", "INT32", int32_t{2}, &beams);
  EXPECT_THAT(Refusal(beams), StartsWith("beam_width "));
}

TEST(InferRequestTest, WhatTheAnswerMayBe) {
  const auto read = [](const std::string& sampling) { return Read(WithSampling(sampling)); };
  const InferRequest object =
      read(R"({"structured_outputs": {"json": {"properties": {"b": {}, "a": {}}}}})");
  EXPECT_EQ(object.call.grammar().json_schema(),
            R"({"properties":{"b":{},"a":{}},"additionalProperties":false})");
  EXPECT_EQ(read(R"({"guided_decoding": {"regex": "a+", "backend": "x"}})").call.grammar().regex(),
            "a+");
  EXPECT_EQ(
      read(R"({"structured_outputs": "{\"choice\": [\"a\"]}"})").call.grammar().choice().texts(0),
      "a");
  EXPECT_TRUE(
      read(R"({"response_format": {"type": "json_object"}})").call.grammar().has_json_object());
  auto parameter = Asking("a");
  (*parameter.mutable_parameters())["structured_outputs"].set_string_param(
      R"({"json": {"z": 1, "a": 2}})");
  EXPECT_EQ(Read(parameter).call.grammar().json_schema(), R"({"z":1,"a":2})");
  const auto words = [](const InferRequest& request, const char* said) {
    return std::string(RenameField(absl::InvalidArgumentError(said), request.paths).message());
  };
  EXPECT_EQ(words(object, "grammar.json_schema: /not: is not served"),
            "sampling_parameters.structured_outputs.json: /not: is not served");
  EXPECT_EQ(words(Read(parameter), "grammar.json_schema is 9 bytes"),
            "parameters.structured_outputs.json is 9 bytes");
  const auto guided = [](const char* type, const char* guide) {
    auto asked = Asking("a");
    AddTexts("guided_decoding_guide_type", {type}, &asked);
    if (*guide != 0) AddTexts("guided_decoding_guide", {guide}, &asked);
    return asked;
  };
  EXPECT_TRUE(Read(guided("json", "")).call.grammar().has_json_object());
  EXPECT_EQ(Read(guided("json_schema", "{}")).call.grammar().json_schema(), "{}");
  EXPECT_EQ(Read(guided("regex", "a")).call.grammar().regex(), "a");
  EXPECT_EQ(Read(guided("ebnf_grammar", "r ::= \"a\"")).call.grammar().ebnf(), "r ::= \"a\"");
  EXPECT_EQ(words(Read(guided("regex", "(")), "grammar.regex: at byte 0"),
            "guided_decoding_guide: at byte 0");
  EXPECT_THAT(Refusal(guided("structural_tag", "x")), StartsWith("guided_decoding_guide_type "));
}

TEST(InferRequestTest, WhatIsNoRequestIsRefused) {
  auto unknown = Asking("a");
  AddNumber("no_such_tensor", "BOOL", true, &unknown);
  EXPECT_EQ(Refusal(unknown), "no_such_tensor is no input tensor of this model");
  inference::ModelInferRequest nothing;
  EXPECT_THAT(Refusal(nothing), StartsWith("text_input is missing"));
  auto twice = WithSampling(R"({"max_tokens": 5})");
  AddNumber("max_tokens", "INT32", int32_t{5}, &twice);
  EXPECT_THAT(Refusal(twice), StartsWith("max_tokens is given twice"));
  auto same = Asking("a");
  AddTexts("text_input", {"b"}, &same);
  EXPECT_EQ(Refusal(same), "text_input is there twice");
  auto output = Asking("a");
  output.add_outputs()->set_name("context_logits");
  EXPECT_THAT(Refusal(output), StartsWith("context_logits "));
  auto version = Asking("a");
  version.set_model_version("2");
  EXPECT_TRUE(absl::IsNotFound(ReadInferRequest(version, true, 1000).status()));
  auto id = Asking("a");
  id.set_id(std::string(129, 'x'));
  EXPECT_THAT(Refusal(id), StartsWith("id "));
  auto echo = Asking("a");
  AddNumber("stream", "BOOL", true, &echo);
  AddNumber("exclude_input_in_output", "BOOL", false, &echo);
  EXPECT_THAT(Refusal(echo), StartsWith("exclude_input_in_output "));
}

TEST(InferRequestTest, TensorsThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& type, int64_t elements, const std::string& raw) {
    auto asked = Asking("a");
    AddInput("max_tokens", type, elements, raw, &asked);
    return Refusal(asked);
  };
  EXPECT_THAT(refusal("INT32", 1, "abc"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal("INT32", 2, "abcd"), HasSubstr("do not fit"));
  EXPECT_THAT(refusal("FP16", 1, "ab"), HasSubstr("of type FP16"));
  EXPECT_THAT(refusal("INT32", -1, "abcd"), HasSubstr("shape"));
  EXPECT_THAT(refusal("INT32", kTensorElementsMax + 1, "abcd"), HasSubstr("shape"));
  EXPECT_THAT(refusal("BYTES", 1, std::string("\xff\xff\xff\xff", 4) + "a"),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal("BYTES", 1, std::string("\x01\0\0\0\xff", 5)), HasSubstr("UTF-8"));
  auto missing = Asking("a");
  missing.add_inputs()->set_name("max_tokens");
  EXPECT_THAT(Refusal(missing), StartsWith("raw_input_contents has 1 entries for 2 inputs"));
  auto shared = Asking("a");
  (*shared.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(Refusal(shared), HasSubstr("shared_memory_region"));
  auto many = Asking("a");
  for (int i = 0; i < kTensorsMax; ++i) AddNumber(std::to_string(i), "BOOL", true, &many);
  EXPECT_THAT(Refusal(many), HasSubstr("the limit is 64"));
}

TEST(InferRequestTest, TheServicesWordsNameTheCallersFields) {
  auto asked = WithSampling(R"({"temperature": -1, "logprobs": 21})");
  AddTexts("stop_words", {"x"}, &asked);
  const FieldPaths paths = Read(asked).paths;
  const auto words = [&paths](const char* said) {
    return std::string(RenameField(absl::InvalidArgumentError(said), paths).message());
  };
  EXPECT_EQ(words("sampling.temperature is -1"), "sampling_parameters.temperature is -1");
  EXPECT_EQ(words("sampling.top_logprobs is 21"), "sampling_parameters.logprobs is 21");
  EXPECT_EQ(words("sampling.stop has 65"), "stop_words has 65");
  EXPECT_EQ(words("sampling.max_tokens is 16"), "max_tokens is 16");
  EXPECT_EQ(words("text is long"), "text_input is long");
  EXPECT_EQ(words("the prompt is empty"), "the prompt is empty");
}

}  // namespace
}  // namespace tutti::gateway
