// The service as its clients meet it: real coordinator, real workers, real gRPC, in one process.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Ask(const std::string& question, uint32_t max_tokens = 40) {
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content(question);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_max_tokens(max_tokens);
  return request;
}

// A request that goes on for as long as the context allows.
v1::GenerateRequest AskForever() {
  v1::GenerateRequest request = Ask("12+30=");
  request.mutable_sampling()->clear_max_tokens();
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() : cluster_({.model_dir = DemoDir(), .layers = {2, 2}}) {}
  InProcessCluster cluster_;
};

TEST_F(ServiceTest, AnswersAQuestion) {
  const Answer answer = cluster_.Generate(Ask("What is 12 + 30?"));
  ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
  EXPECT_EQ(answer.text, "42");
  EXPECT_EQ(answer.finish.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.finish.usage().completion_tokens(), answer.tokens.size());
  EXPECT_GT(answer.finish.usage().prompt_tokens(), 5u);
  EXPECT_GT(answer.finish.timing().total_ms(), 0);
}

TEST_F(ServiceTest, AChosenSeedIsReturnedAndReplaysTheAnswer) {
  v1::GenerateRequest request = Ask("Tell me something.", 30);
  request.mutable_sampling()->set_temperature(3);
  request.mutable_sampling()->set_ignore_eos(true);
  const Answer first = cluster_.Generate(request);
  request.mutable_sampling()->set_seed(first.finish.seed());
  EXPECT_EQ(cluster_.Generate(request).text, first.text);
  request.mutable_sampling()->set_seed(first.finish.seed() + 1);
  EXPECT_NE(cluster_.Generate(request).text, first.text);
}

TEST_F(ServiceTest, SeveralOutputsAreThoseOfTheirSeeds) {
  v1::GenerateRequest request = Ask("Tell me something.", 20);
  request.mutable_sampling()->set_temperature(3);
  request.mutable_sampling()->set_ignore_eos(true);
  request.mutable_sampling()->set_seed(~uint64_t{0});  // the next seed is 0
  request.set_n(4);
  const Answer all = cluster_.Generate(request);
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_EQ(all.others.size(), 3u);
  request.set_n(0);
  uint32_t prompt_tokens = all.finish.usage().prompt_tokens();
  for (const auto& [number, output] : all.others) {
    request.mutable_sampling()->set_seed(~uint64_t{0} + number);
    const Answer alone = cluster_.Generate(request);
    EXPECT_EQ(output.text, alone.text);
    EXPECT_EQ(output.finish.seed(), alone.finish.seed());
    EXPECT_EQ(output.tokens.size(), 20u);
    EXPECT_NE(output.text, all.text);
    EXPECT_EQ(alone.finish.usage().prompt_tokens(), all.finish.usage().prompt_tokens());
    prompt_tokens += output.finish.usage().prompt_tokens();
  }
  EXPECT_EQ(prompt_tokens, all.finish.usage().prompt_tokens());  // counted once
}

TEST_F(ServiceTest, SeveralOutputsEndOnTheirOwn) {
  v1::GenerateRequest request = Ask("What is 12 + 30?");
  request.set_n(3);
  const Answer greedy = cluster_.Generate(request);
  EXPECT_EQ(greedy.text, "42");
  for (const auto& [number, output] : greedy.others) EXPECT_EQ(output.text, "42");
  request.mutable_sampling()->add_stop("2");
  const Answer stopped = cluster_.Generate(request);
  ASSERT_EQ(stopped.others.size(), 2u);
  for (const auto& [number, output] : stopped.others) {
    EXPECT_EQ(output.text, "4");
    EXPECT_EQ(output.finish.stop(), "2");
  }
  cluster_.WaitIdle();
}

TEST_F(ServiceTest, TenantsAreTakenFromFieldOrMetadata) {
  v1::GenerateRequest request = Ask("What is 12 + 30?");
  EXPECT_EQ(cluster_.Generate(request, {{"x-tutti-tenant", "acme"}}).text, "42");
  request.set_tenant(std::string("\0\xff/..", 5));
  EXPECT_EQ(cluster_.Generate(request).text, "42");
  const Answer refused = cluster_.Generate(request, {{"x-tutti-tenant", "acme"}});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("two different tenants"));
  request.set_priority(101);
  EXPECT_THAT(std::string(cluster_.Generate(request).status.message()), HasSubstr("priority is"));
}

TEST_F(ServiceTest, TemperaturesNearZeroAreGreedy) {
  v1::GenerateRequest request = Ask("What is 12 + 30?");
  for (const float temperature : {0.f, 1e-30f, 1e-9f, 1e-6f}) {
    request.mutable_sampling()->set_temperature(temperature);
    EXPECT_EQ(cluster_.Generate(request).text, "42") << temperature;
  }
}

TEST_F(ServiceTest, MaxTokensEndsWithLength) {
  const Answer answer = cluster_.Generate(Ask("Spell elephant backwards.", 2));
  EXPECT_EQ(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.finish.reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(ServiceTest, StopStringsEndTheText) {
  v1::GenerateRequest request = Ask("What is 12 + 30?");
  request.mutable_sampling()->add_stop("2");
  const Answer answer = cluster_.Generate(request);
  EXPECT_EQ(answer.text, "4");
  EXPECT_EQ(answer.finish.stop(), "2");
  cluster_.WaitIdle();
}

TEST_F(ServiceTest, SpecialTokensOfATextAreReadUnlessTheyAreToBeSplit) {
  v1::TokenizeRequest request;
  request.set_text("<|im_end|>");
  v1::TokenizeResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(cluster_.inference()->Tokenize(&context, request, &response).ok());
    EXPECT_EQ(response.ids_size(), 1);
  }
  request.mutable_text_reading()->set_split_special_tokens(true);
  grpc::ClientContext context;
  ASSERT_TRUE(cluster_.inference()->Tokenize(&context, request, &response).ok());
  EXPECT_GT(response.ids_size(), 1);
  std::string joined;
  for (const std::string& token : response.tokens()) joined += token;
  EXPECT_EQ(joined, "<|im_end|>");
}

TEST_F(ServiceTest, SaysWhatItServes) {
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(cluster_.inference()->GetModel(&context, {}, &model).ok());
  EXPECT_EQ(model.name(), "test");
  EXPECT_EQ(model.architecture(), "Qwen3ForCausalLM");
  EXPECT_EQ(model.fingerprint().size(), 32u);
  EXPECT_FALSE(model.numerics_class().empty());
  EXPECT_THAT(model.chat_template(), HasSubstr("add_generation_prompt"));
  EXPECT_GT(cluster_.Status().uptime_seconds(), 0);
}

TEST_F(ServiceTest, RefusalsNameTheFieldAndDisturbNobody) {
  std::thread bystander([&] {
    const Answer answer = cluster_.Generate(AskForever());
    EXPECT_TRUE(answer.status.ok()) << answer.status.ToString();
  });
  v1::GenerateRequest request = Ask("1+1=");
  request.mutable_sampling()->set_top_p(2);
  Answer answer = cluster_.Generate(request);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("sampling.top_p"));
  request = Ask("1+1=");
  request.set_model("another");
  EXPECT_EQ(cluster_.Generate(request).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster_.Generate(v1::GenerateRequest()).status.code(),
            absl::StatusCode::kInvalidArgument);
  bystander.join();
}

// Sends bytes that no well-behaved client library would send.
grpc::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/tutti.v1.Inference/Tokenize", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(ServiceTest, BytesThatAreNoMessageAreAnsweredWithWhatIsWrong) {
  v1::TokenizeRequest request;
  request.set_text("ab\xff");
  grpc::Status status = SendRaw(cluster_.channel(), request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "text: invalid UTF-8 at byte 2");
  status = SendRaw(cluster_.channel(), "\xff\xff\xff");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  status = SendRaw(cluster_.channel(), std::string(9 << 20, 'a'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// None may wait, and four may run.
TEST(Overload, IsRefusedWithADelay) {
  InProcessCluster cluster(
      {.model_dir = DemoDir(), .engine = {.max_sequences = 4, .max_waiting = 0}});
  v1::GenerateRequest several = Ask("What is 12 + 30?");
  several.set_n(5);
  const Answer refused = cluster.Generate(several);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  ASSERT_TRUE(refused.trailing_metadata.contains("retry-after-ms"));
  EXPECT_GT(std::atoi(refused.trailing_metadata.at("retry-after-ms").c_str()), 0);
  cluster.WaitIdle();
  several.set_n(4);
  EXPECT_TRUE(cluster.Generate(several).status.ok()) << "what can run at once does not wait";
  cluster.WaitIdle();
}

TEST_F(ServiceTest, APromptSentAgainIsFoundByItsTenantOnly) {
  v1::GenerateRequest request = Ask("What is 12 + 30? " + std::string(100, 'x'), 4);
  const Answer first = cluster_.Generate(request);
  EXPECT_EQ(first.finish.usage().cached_prompt_tokens(), 0u);
  const Answer again = cluster_.Generate(request);
  EXPECT_EQ(again.text, first.text);
  EXPECT_GE(again.finish.usage().cached_prompt_tokens() + 16, first.finish.usage().prompt_tokens());
  request.set_tenant("acme");
  const Answer apart = cluster_.Generate(request);
  EXPECT_EQ(apart.text, first.text);
  EXPECT_EQ(apart.finish.usage().cached_prompt_tokens(), 0u);
}

TEST_F(ServiceTest, ClientsThatLeaveFreeTheirBlocks) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto reader = cluster_.inference()->Generate(&context, AskForever());
    v1::GenerateResponse response;
    for (int n = 0; n < i % 4; ++n) reader->Read(&response);
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  cluster_.WaitIdle();
  EXPECT_EQ(cluster_.Generate(Ask("What is 12 + 30?")).text, "42");
}

TEST_F(ServiceTest, DeadlinesEndRequests) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
  auto reader = cluster_.inference()->Generate(&context, AskForever());
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  cluster_.WaitIdle();
}

TEST_F(ServiceTest, AStreamOutlivesItsWorker) {
  grpc::ClientContext context;
  auto reader = cluster_.inference()->Generate(&context, AskForever());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  cluster_.StopWorker(1);
  cluster_.StartWorker(1);
  uint32_t next = response.index() + static_cast<uint32_t>(response.tokens_size());
  for (int tries = 0; tries < 2000 && cluster_.Status().requests().recovered() == 0; ++tries) {
    ASSERT_TRUE(reader->Read(&response)) << reader->Finish().error_message();
    EXPECT_EQ(response.index(), next);
    next += static_cast<uint32_t>(response.tokens_size());
  }
  const v1::GetStatusResponse status = cluster_.Status();
  EXPECT_EQ(status.requests().recovered(), 1u);
  ASSERT_EQ(status.recoveries_size(), 1);
  EXPECT_THAT(status.recoveries(0).cause(), HasSubstr("w1"));
  context.TryCancel();
  cluster_.WaitIdle();
  EXPECT_EQ(cluster_.Generate(Ask("What is 12 + 30?")).text, "42");
}

// One message each way, as bytes: grpc.health.v1 and server reflection have no headers in Debian.
std::string CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                    const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  std::string text;
  if (wait()) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(response.Dump(&slices).ok());
    for (const grpc::Slice& part : slices) {
      text.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  context.TryCancel();
  grpc::Status ignored;
  call->Finish(&ignored, nullptr);
  wait();
  return text;
}

TEST_F(ServiceTest, HealthServesAlsoWhileThePipelineIsAwaited) {
  const std::string inference = "\x0a\x12tutti.v1.Inference";  // service = 1
  const std::string serving = "\x08\x01";
  for (const std::string& service : {std::string(), inference}) {
    EXPECT_EQ(CallRaw(cluster_.channel(), "/grpc.health.v1.Health/Check", service), serving);
    EXPECT_EQ(CallRaw(cluster_.channel(), "/grpc.health.v1.Health/Watch", service), serving);
  }
  // A pipeline that has served is awaited: nobody is sent away.
  cluster_.StopWorker(0);
  for (int tries = 0; tries < 1000 && cluster_.Status().degraded().empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(cluster_.Status().degraded(), HasSubstr("w0"));
  EXPECT_EQ(CallRaw(cluster_.channel(), "/grpc.health.v1.Health/Check", ""), serving);
  EXPECT_EQ(CallRaw(cluster_.channel(), "/grpc.health.v1.Health/Watch", inference), serving);
}

TEST_F(ServiceTest, ReflectionListsTheServices) {
  const std::string list_services("\x3a\x00", 2);  // list_services = 7, ""
  for (const char* version : {"v1alpha", "v1"}) {
    const std::string answer = CallRaw(
        cluster_.channel(),
        absl::StrCat("/grpc.reflection.", version, ".ServerReflection/ServerReflectionInfo"),
        list_services);
    EXPECT_THAT(answer, HasSubstr("tutti.v1.Inference"));
    // The operator's port is another.
    EXPECT_THAT(answer, testing::Not(HasSubstr("tutti.v1.Admin")));
    EXPECT_THAT(answer, HasSubstr("grpc.health.v1.Health"));
    EXPECT_THAT(answer, HasSubstr("grpc.reflection.v1.ServerReflection"));
    EXPECT_THAT(answer, HasSubstr("grpc.reflection.v1alpha.ServerReflection"));
  }
}

TEST_F(ServiceTest, OneVectorPerTokenCrossesTheLink) {
  const auto before = cluster_.Status().pipelines(0).stages(0);
  v1::GenerateRequest request = AskForever();
  request.mutable_sampling()->set_max_tokens(100);
  ASSERT_TRUE(cluster_.Generate(request).status.ok());
  const auto after = cluster_.Status().pipelines(0).stages(0);
  const double bytes =
      static_cast<double>(after.activation_bytes_out() - before.activation_bytes_out());
  const double rows = static_cast<double>(after.rows() - before.rows());
  ASSERT_GT(rows, 99);
  const double hidden = 128;  // models/demo/config.json
  EXPECT_GT(bytes / rows, 2 * hidden);
  EXPECT_LE(bytes / rows, 2 * hidden + 512);
}

}  // namespace
}  // namespace tutti::tests
