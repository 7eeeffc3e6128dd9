// Server reflection, version 1, as tools use it: from a list of services to messages to write.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

namespace pb = google::protobuf;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::ElementsAre;

class ReflectionTest : public ::testing::Test {
 protected:
  // All questions in one call; the connection goes on after errors.
  std::vector<ServerReflectionResponse> Ask(const std::vector<ServerReflectionRequest>& questions) {
    const auto stub = grpc::reflection::v1::ServerReflection::NewStub(cluster_.channel());
    grpc::ClientContext context;
    const auto call = stub->ServerReflectionInfo(&context);
    std::vector<ServerReflectionResponse> answers;
    for (const ServerReflectionRequest& question : questions) {
      EXPECT_TRUE(call->Write(question));
      EXPECT_TRUE(call->Read(&answers.emplace_back()));
      EXPECT_EQ(answers.back().original_request().SerializeAsString(),
                question.SerializeAsString());
      EXPECT_EQ(answers.back().valid_host(), question.host());
    }
    call->WritesDone();
    EXPECT_TRUE(call->Finish().ok());
    return answers;
  }

  InProcessCluster cluster_{
      {.model_dir = std::string(std::getenv("TUTTI_SOURCE_DIR")) + "/models/demo"}};
};

TEST_F(ReflectionTest, LeadsFromTheServicesToTheirMessages) {
  std::vector<ServerReflectionRequest> questions(2);
  questions[0].set_list_services("*");
  questions[0].set_host("here");
  questions[1].set_file_containing_symbol("tutti.v1.Inference");
  const auto answers = Ask(questions);
  std::vector<std::string> names;
  for (const auto& service : answers[0].list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                 "grpc.reflection.v1alpha.ServerReflection", "tutti.v1.Inference"));
  pb::DescriptorPool pool;
  const auto& files = answers[1].file_descriptor_response().file_descriptor_proto();
  for (int i = files.size() - 1; i >= 0; --i) {  // what is imported comes after
    pb::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[i]));
    ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
  }
  const pb::ServiceDescriptor* const service = pool.FindServiceByName("tutti.v1.Inference");
  ASSERT_NE(service, nullptr);
  EXPECT_NE(service->FindMethodByName("Detokenize"), nullptr);
}

TEST_F(ReflectionTest, AnswersEveryKindOfQuestion) {
  std::vector<ServerReflectionRequest> questions(10);
  questions[0].set_file_by_filename("tutti/v1/generation.proto");
  questions[1].set_file_by_filename("google/rpc/error_details.proto");
  questions[2].set_file_by_filename("../../etc/passwd");
  questions[3].set_file_containing_symbol("no.such.Symbol");
  questions[4].set_all_extension_numbers_of_type("tutti.v1.GenerateRequest");
  questions[5].set_all_extension_numbers_of_type("no.such.Message");
  questions[6].mutable_file_containing_extension()->set_containing_type("tutti.v1.GenerateRequest");
  questions[7].mutable_file_containing_extension()->set_extension_number(-5);
  // questions[8] asks nothing
  questions[9].set_file_containing_symbol("tutti.v1.Inference.Generate");
  const auto answers = Ask(questions);
  for (const int i : {0, 1, 9}) {
    EXPECT_GT(answers[i].file_descriptor_response().file_descriptor_proto_size(), 0) << i;
  }
  for (const int i : {2, 3, 5, 6, 7}) {
    EXPECT_EQ(answers[i].error_response().error_code(), grpc::StatusCode::NOT_FOUND) << i;
  }
  EXPECT_EQ(answers[4].all_extension_numbers_response().base_type_name(),
            "tutti.v1.GenerateRequest");
  EXPECT_EQ(answers[8].error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tutti::tests
