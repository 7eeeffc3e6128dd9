#include "door/grpc/error_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/retry_delay.h"
#include "door/limits.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace tutti::door {
namespace {

using std::chrono::milliseconds;

google::rpc::Status Rich(const grpc::Status& status) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_EQ(rich.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(rich.message(), status.error_message());
  return rich;
}

template <typename Detail>
std::optional<Detail> Find(const google::rpc::Status& rich) {
  for (const auto& any : rich.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

std::string Field(const char* words) { return FieldAtFault(absl::InvalidArgumentError(words)); }

TEST(ErrorDetails, TheFieldAtFaultIsThatOfTheWords) {
  EXPECT_EQ(Field("sampling.top_p is 2, it must lie in (0, 1]"), "sampling.top_p");
  EXPECT_EQ(Field("text: invalid UTF-8 at byte 3"), "text");
  EXPECT_EQ(Field("token_ids.ids[17] is -1, the vocabulary has ids 0 to 5"), "token_ids.ids[17]");
  EXPECT_EQ(Field("chat.messages[2].tool_calls[0].arguments_json: not JSON"),
            "chat.messages[2].tool_calls[0].arguments_json");
  EXPECT_EQ(Field("sampling.logit_bias[9] (the key) is 9"), "sampling.logit_bias[9]");
  EXPECT_EQ(Field("n is 65, the limit is 64"), "n");
  EXPECT_EQ(Field("ids[3] is 700"), "ids[3]");
  EXPECT_EQ(Field("worker_id is not the name of a worker"), "worker_id");
  EXPECT_EQ(Field("one of text, token_ids and chat must be set"), "prompt");
  EXPECT_EQ(Field("the prompt is empty: it has no tokens"), "prompt");
  EXPECT_EQ(Field("prompt of 5 tokens and max_tokens of 9 do not fit"), "prompt");
}

TEST(ErrorDetails, WordsThatAreNoFieldNameNone) {
  for (const char* words :
       {"", "the request is not a tutti.v1.GenerateRequest message", "texts are",
        "sampling.top_q is 1", "sampling.top_p.x is 1", "text[1 is", "text[x] is", "sampling.",
        "[0]", "one of us", "name.of.nothing is"}) {
    EXPECT_EQ(Field(words), "") << words;
  }
  EXPECT_EQ(FieldAtFault(absl::NotFoundError("model: no such model")), "");
}

TEST(ErrorDetails, ABadRequestNamesItsField) {
  const grpc::Status status = ToGrpc(absl::InvalidArgumentError("n is 65, the limit is 64"));
  const google::rpc::Status rich = Rich(status);
  const auto info = Find<google::rpc::ErrorInfo>(rich);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "INVALID_REQUEST");
  EXPECT_EQ(info->domain(), "tutti");
  const auto bad = Find<google::rpc::BadRequest>(rich);
  ASSERT_TRUE(bad.has_value());
  ASSERT_EQ(bad->field_violations_size(), 1);
  EXPECT_EQ(bad->field_violations(0).field(), "n");
  EXPECT_EQ(bad->field_violations(0).description(), "n is 65, the limit is 64");
  EXPECT_FALSE(Find<google::rpc::RetryInfo>(rich).has_value());
}

TEST(ErrorDetails, ADelayIsARetryInfo) {
  const absl::Status full =
      WithRetryDelay(absl::ResourceExhaustedError("full"), milliseconds(2250));
  const google::rpc::Status rich = Rich(ToGrpc(full));
  const auto retry = Find<google::rpc::RetryInfo>(rich);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->retry_delay().seconds(), 2);
  EXPECT_EQ(retry->retry_delay().nanos(), 250'000'000);
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(rich)->reason(), "OVERLOADED");
  EXPECT_FALSE(Find<google::rpc::BadRequest>(rich).has_value());
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(ErrorDetails, DelaysAreMadeLongerAtRandomOnly) {
  const absl::Status full = WithRetryDelay(absl::ResourceExhaustedError("full"), milliseconds(400));
  EXPECT_EQ(JitteredDelay(full, 0), milliseconds(400));
  EXPECT_EQ(JitteredDelay(full, 0.5), milliseconds(450));
  EXPECT_LE(*JitteredDelay(full, 0.999999), milliseconds(500));
  EXPECT_EQ(JitteredDelay(absl::InternalError("x"), 0.5), std::nullopt);
}

TEST(ErrorDetails, PushbackIsNegativeWhereARetryCannotHelp) {
  const auto pushback = [](const absl::Status& status) {
    return PushbackMs(status, JitteredDelay(status, 0));
  };
  EXPECT_EQ(pushback(WithRetryDelay(absl::ResourceExhaustedError("full"), milliseconds(400))), 400);
  EXPECT_EQ(pushback(WithRetryDelay(absl::UnavailableError("drains"), milliseconds(5000))), 5000);
  EXPECT_EQ(pushback(absl::UnavailableError("not serving")), std::nullopt);
  EXPECT_EQ(pushback(absl::CancelledError("left")), std::nullopt);
  for (const absl::Status& status :
       {absl::InvalidArgumentError("n"), absl::NotFoundError("m"), absl::InternalError("i"),
        absl::ResourceExhaustedError("pattern"), absl::FailedPreconditionError("f"),
        absl::DeadlineExceededError("d"), absl::AbortedError("a"), absl::AlreadyExistsError("e"),
        absl::DataLossError("l"), absl::PermissionDeniedError("p")}) {
    EXPECT_EQ(pushback(status), kNoRetry) << status;
  }
}

TEST(ErrorDetails, WordsAreBoundedAndUtf8) {
  const std::string at_limit = "n " + std::string(kErrorTextBytesMax - 2, 'x');
  EXPECT_EQ(ToGrpc(absl::InvalidArgumentError(at_limit)).error_message(), at_limit);
  const grpc::Status longer = ToGrpc(absl::InvalidArgumentError(at_limit + "y"));
  EXPECT_EQ(longer.error_message(), at_limit);
  const auto bad = Find<google::rpc::BadRequest>(Rich(longer));
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->field_violations(0).description().size(), kErrorDescriptionBytesMax);
  // Not within a character, and up to what is none.
  std::string umlauts = "n";
  while (umlauts.size() < kErrorTextBytesMax + 2) umlauts += "ü";
  EXPECT_EQ(ToGrpc(absl::InternalError(umlauts)).error_message().size(), kErrorTextBytesMax - 1);
  EXPECT_EQ(ToGrpc(absl::InternalError("a\xff"
                                       "b"))
                .error_message(),
            "a");
  // The worst case stays below what clients take: escaped, in base64, and described.
  const grpc::Status worst = ToGrpc(absl::InvalidArgumentError(umlauts));
  EXPECT_LT(worst.error_message().size() * 3 + worst.error_details().size() * 4 / 3, 7500u);
}

}  // namespace
}  // namespace tutti::door
