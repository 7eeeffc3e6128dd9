#include "coordinator/service/request_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "coordinator/limits.h"
#include "coordinator/model_testing.h"
#include "door/limits.h"
#include "text/limits.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;
using Change = std::function<void(v1::GenerateRequest*)>;

class RequestBuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = LoadDemoModel().release(); }
  static void TearDownTestSuite() { delete model_; }

  static absl::StatusOr<BuiltRequest> Build(const Change& change) {
    v1::GenerateRequest message;
    message.set_text("hello");
    change(&message);
    return BuildRequest(message, *model_);
  }
  static void ExpectRefused(absl::StatusCode code, const std::string& words, const Change& change) {
    const auto built = Build(change);
    ASSERT_FALSE(built.ok()) << "expected an error about: " << words;
    EXPECT_EQ(built.status().code(), code) << built.status().ToString();
    EXPECT_THAT(std::string(built.status().message()), HasSubstr(words));
  }
  static void ExpectTaken(const Change& change) {
    EXPECT_TRUE(Build(change).ok()) << Build(change).status().ToString();
  }
  // A value at the edge is taken, the next one refused with words that name the field.
  template <typename Value, typename Set>
  static void ExpectEdges(std::initializer_list<Value> good, std::initializer_list<Value> bad,
                          const std::string& path, Set set) {
    for (const Value value : good) {
      ExpectTaken([&](v1::GenerateRequest* m) { set(m->mutable_sampling(), value); });
    }
    for (const Value value : bad) {
      ExpectRefused(absl::StatusCode::kInvalidArgument, path,
                    [&](v1::GenerateRequest* m) { set(m->mutable_sampling(), value); });
    }
  }

  static ServedModel* model_;
};
ServedModel* RequestBuilderTest::model_ = nullptr;

TEST_F(RequestBuilderTest, CountsOfOutputsAndPrioritiesHaveEdges) {
  for (const auto& [asked, given] : std::map<uint32_t, int32_t>{{0, 1}, {1, 1}, {64, 64}}) {
    const auto built = Build([n = asked](v1::GenerateRequest* m) { m->set_n(n); });
    ASSERT_TRUE(built.ok());
    EXPECT_EQ(built->n, given);
  }
  for (const uint32_t n : {door::kOutputsMax + 1, ~0u}) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, "n is",
                  [n](v1::GenerateRequest* m) { m->set_n(n); });
  }
  for (const int32_t priority : {kPriorityMin, 0, kPriorityMax}) {
    const auto built = Build([priority](v1::GenerateRequest* m) { m->set_priority(priority); });
    ASSERT_TRUE(built.ok());
    EXPECT_EQ(built->request.priority, priority);
  }
  for (const int32_t priority : {kPriorityMin - 1, kPriorityMax + 1}) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, "priority is",
                  [priority](v1::GenerateRequest* m) { m->set_priority(priority); });
  }
}

TEST_F(RequestBuilderTest, GuessesAreTheClientsChoiceOrTheOperators) {
  // Guesses that are looked up, and those of a draft model.
  using Most = std::pair<std::optional<int32_t>, std::optional<int32_t>>;
  const auto guesses = [&](v1::Speculation::Mode mode, uint32_t most) -> Most {
    const auto built = Build([=](v1::GenerateRequest* m) {
      m->mutable_speculation()->set_mode(mode);
      m->mutable_speculation()->set_max_tokens(most);
    });
    EXPECT_TRUE(built.ok()) << built.status();
    return {built->request.guesses_max, built->request.drafts_max};
  };
  EXPECT_EQ(Build([](v1::GenerateRequest*) {})->request.guesses_max, std::nullopt);
  EXPECT_EQ(guesses(v1::Speculation::MODE_UNSPECIFIED, 0), Most());
  EXPECT_EQ(guesses(v1::Speculation::MODE_OFF, 0), Most(0, 0));
  EXPECT_EQ(guesses(v1::Speculation::MODE_OFF, 5), Most(0, 0));
  EXPECT_EQ(guesses(v1::Speculation::MODE_LOOKUP, 0), Most(kGuessesMax, 0));
  EXPECT_EQ(guesses(v1::Speculation::MODE_LOOKUP, 3), Most(3, 0));
  EXPECT_EQ(guesses(v1::Speculation::MODE_LOOKUP, kGuessesMax), Most(kGuessesMax, 0));
  const auto draft = [](v1::GenerateRequest* m) {
    m->mutable_speculation()->set_mode(v1::Speculation::MODE_DRAFT);
  };
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "speculation.mode is MODE_DRAFT, but this service has no draft model "
                "(--draft-model)",
                draft);
  model_->has_draft = true;
  EXPECT_EQ(guesses(v1::Speculation::MODE_DRAFT, 0), Most(kGuessesMax, kGuessesMax));
  EXPECT_EQ(guesses(v1::Speculation::MODE_DRAFT, 4), Most(4, 4));
  EXPECT_EQ(guesses(v1::Speculation::MODE_LOOKUP, 3), Most(3, 0));
  model_->has_draft = false;
  ExpectRefused(absl::StatusCode::kInvalidArgument, "speculation.max_tokens is 16",
                [](v1::GenerateRequest* m) {
                  m->mutable_speculation()->set_mode(v1::Speculation::MODE_LOOKUP);
                  m->mutable_speculation()->set_max_tokens(16);
                });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "speculation.max_tokens is set",
                [](v1::GenerateRequest* m) { m->mutable_speculation()->set_max_tokens(1); });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "speculation.mode is 9",
                [](v1::GenerateRequest* m) {
                  m->mutable_speculation()->set_mode(static_cast<v1::Speculation::Mode>(9));
                });
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_F(RequestBuilderTest, SamplingRangesHaveEdges) {
  using P = v1::SamplingParams;
  ExpectEdges<float>({0, 1e-40f, 1e-9f, 2, door::kTemperatureMax},
                     {-1e-40f, -0.1f, std::nextafter(100.f, kInf), 1e5f, kNaN, kInf},
                     "sampling.temperature", [](P* p, float v) { p->set_temperature(v); });
  ExpectEdges<float>({1e-40f, 1e-6f, 1}, {0, -1, 1.001f, 1000, kNaN}, "sampling.top_p",
                     [](P* p, float v) { p->set_top_p(v); });
  ExpectEdges<float>({0, 1}, {-0.1f, 1.1f, kNaN}, "sampling.min_p",
                     [](P* p, float v) { p->set_min_p(v); });
  ExpectEdges<int32_t>({-1, 0, 1, 1 << 30}, {-2}, "sampling.top_k",
                       [](P* p, int32_t v) { p->set_top_k(v); });
  ExpectEdges<float>(
      {door::kRepetitionPenaltyMin, 1, door::kRepetitionPenaltyMax},
      {0, -1, std::nextafter(door::kRepetitionPenaltyMin, 0.f), door::kRepetitionPenaltyMin / 1000,
       1e-40f, std::nextafter(door::kRepetitionPenaltyMax, kInf),
       door::kRepetitionPenaltyMax * 1000, kNaN, kInf},
      "sampling.repetition_penalty", [](P* p, float v) { p->set_repetition_penalty(v); });
  ExpectEdges<float>({-2, 2}, {-2.1f, 2.1f, 2000, kNaN, kInf}, "sampling.presence_penalty",
                     [](P* p, float v) { p->set_presence_penalty(v); });
  ExpectEdges<float>({-2, 2}, {-2.1f, 2.1f, 2000, kNaN, kInf}, "sampling.frequency_penalty",
                     [](P* p, float v) { p->set_frequency_penalty(v); });
  ExpectEdges<uint32_t>({0, door::kTopLogprobsMax}, {door::kTopLogprobsMax + 1, 1u << 31},
                        "sampling.top_logprobs", [](P* p, uint32_t v) {
                          p->set_logprobs(true);
                          p->set_top_logprobs(v);
                        });
  ExpectEdges<float>({-100, 100}, {-100.5f, 100.5f, 1e5f, kNaN, kInf}, "sampling.logit_bias[3]",
                     [](P* p, float v) { (*p->mutable_logit_bias())[3] = v; });
  ExpectEdges<int>({1, text::kStopStringBytesMax}, {0, text::kStopStringBytesMax + 1},
                   "sampling.stop[0]", [](P* p, int v) { p->add_stop(std::string(v, 'x')); });
  ExpectEdges<int>({0, text::kStopStringsMax}, {text::kStopStringsMax + 1}, "sampling.stop",
                   [](P* p, int v) {
                     for (int i = 0; i < v; ++i) p->add_stop("x");
                   });
  ExpectEdges<int>({0, door::kStopTokenIdsMax}, {door::kStopTokenIdsMax + 1},
                   "sampling.stop_token_ids", [](P* p, int v) {
                     for (int i = 0; i < v; ++i) p->add_stop_token_ids(i);
                   });
  ExpectEdges<int>({0, door::kLogitBiasMax}, {door::kLogitBiasMax + 1}, "sampling.logit_bias",
                   [](P* p, int v) {
                     for (int i = 0; i < v; ++i) (*p->mutable_logit_bias())[i % 100000] = 1;
                   });
}

TEST_F(RequestBuilderTest, TopLogprobsNeedLogprobs) {
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "sampling.top_logprobs is 3, which needs sampling.logprobs",
                [](v1::GenerateRequest* m) { m->mutable_sampling()->set_top_logprobs(3); });
  const auto built =
      Build([](v1::GenerateRequest* m) { m->mutable_sampling()->set_logprobs(true); });
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(built->request.sampling.logprobs());
}

TEST_F(RequestBuilderTest, TokenIdsMustBeInTheVocabulary) {
  const int32_t vocab = static_cast<int32_t>(model_->config.vocab_size);
  for (const int32_t bad : {-1, vocab, std::numeric_limits<int32_t>::max()}) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, "token_ids.ids[1]",
                  [&](v1::GenerateRequest* m) {
                    m->mutable_token_ids()->add_ids(0);
                    m->mutable_token_ids()->add_ids(bad);
                  });
    ExpectRefused(absl::StatusCode::kInvalidArgument, "sampling.stop_token_ids[0]",
                  [&](v1::GenerateRequest* m) { m->mutable_sampling()->add_stop_token_ids(bad); });
    ExpectRefused(
        absl::StatusCode::kInvalidArgument, "sampling.logit_bias",
        [&](v1::GenerateRequest* m) { (*m->mutable_sampling()->mutable_logit_bias())[bad] = 1; });
  }
  ExpectTaken([&](v1::GenerateRequest* m) { m->mutable_token_ids()->add_ids(vocab - 1); });
}

TEST_F(RequestBuilderTest, PromptsMustBeThereAndFit) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(invalid, "one of text", [](v1::GenerateRequest* m) { m->clear_prompt(); });
  ExpectRefused(invalid, "prompt is empty", [](v1::GenerateRequest* m) { m->set_text(""); });
  ExpectRefused(invalid, "prompt is empty", [](v1::GenerateRequest* m) { m->mutable_token_ids(); });
  ExpectRefused(invalid, "text", [](v1::GenerateRequest* m) {
    m->set_text(std::string(door::kPromptBytesMax + 1, 'a'));
  });
  const int32_t context = model_->max_model_len;
  const auto tokens = [](int64_t count) {
    return [count](v1::GenerateRequest* m) {
      for (int64_t i = 0; i < count; ++i) m->mutable_token_ids()->add_ids(5);
    };
  };
  ExpectTaken(tokens(context - 1));
  ExpectRefused(invalid, "leaves no room for output", tokens(context));
  ExpectRefused(invalid, "sampling.max_tokens", [&](v1::GenerateRequest* m) {
    tokens(context - 8)(m);
    m->mutable_sampling()->set_max_tokens(9);
  });
  ExpectTaken([&](v1::GenerateRequest* m) {
    tokens(context - 8)(m);
    m->mutable_sampling()->set_max_tokens(8);
  });
  ExpectRefused(invalid, "sampling.max_tokens",
                [](v1::GenerateRequest* m) { m->mutable_sampling()->set_max_tokens(0); });
}

TEST_F(RequestBuilderTest, InvalidUtf8IsNamed) {
  ExpectRefused(absl::StatusCode::kInvalidArgument, "text", [](v1::GenerateRequest* m) {
    m->mutable_token_ids();
    m->set_text("ab\xff");
  });
}

TEST_F(RequestBuilderTest, ChatIsChecked) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(invalid, "chat.messages is empty",
                [](v1::GenerateRequest* m) { m->mutable_chat(); });
  ExpectRefused(invalid, "chat.messages[0].role", [](v1::GenerateRequest* m) {
    m->mutable_chat()->add_messages()->set_role("root");
  });
  ExpectRefused(invalid, "template_kwargs_json", [](v1::GenerateRequest* m) {
    m->mutable_chat()->add_messages()->set_role("user");
    m->mutable_chat()->set_template_kwargs_json("[1]");
  });
  ExpectRefused(invalid, "template_kwargs_json", [](v1::GenerateRequest* m) {
    m->mutable_chat()->add_messages()->set_role("user");
    m->mutable_chat()->set_template_kwargs_json(std::string(100000, '['));
  });
}

TEST_F(RequestBuilderTest, NamesAndLabels) {
  ExpectTaken([](v1::GenerateRequest* m) { m->set_model("demo"); });
  ExpectRefused(absl::StatusCode::kNotFound, "demo",
                [](v1::GenerateRequest* m) { m->set_model("gpt"); });
  ExpectTaken([](v1::GenerateRequest* m) { m->set_request_id(std::string(128, 'r')); });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "request_id",
                [](v1::GenerateRequest* m) { m->set_request_id(std::string(129, 'r')); });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "request_id",
                [](v1::GenerateRequest* m) { m->set_request_id("a\nb"); });
}

TEST_F(RequestBuilderTest, DefaultsComeFromTheModel) {
  const auto built = Build([](v1::GenerateRequest*) {});
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  const Request& request = built->request;
  EXPECT_TRUE(request.max_tokens_is_default);
  EXPECT_EQ(request.max_tokens + static_cast<int32_t>(request.prompt.size()),
            model_->max_model_len);
  EXPECT_EQ(request.sampling.repetition_penalty(), 1);
  EXPECT_EQ(request.stop_token_ids.size(), model_->generation.eos_token_ids.size());
  EXPECT_FALSE(built->seed_given);

  const auto ignoring = Build([](v1::GenerateRequest* m) {
    m->mutable_sampling()->set_ignore_eos(true);
    m->mutable_sampling()->set_seed(7);
  });
  EXPECT_TRUE(ignoring->request.stop_token_ids.empty());
  EXPECT_TRUE(ignoring->seed_given);
  EXPECT_EQ(ignoring->request.sampling.seed(), 7u);
}

}  // namespace
}  // namespace tutti::coordinator
