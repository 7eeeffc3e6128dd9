#include "door/grpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tutti::door {
namespace {

namespace pb = google::protobuf;
using Question = grpc::reflection::v1::ServerReflectionRequest;
using Answer = grpc::reflection::v1::ServerReflectionResponse;

void Refuse(grpc::StatusCode code, const std::string& why, Answer* answer) {
  answer->mutable_error_response()->set_error_code(code);
  answer->mutable_error_response()->set_error_message(why);
}

// The file, then what it imports.
void AddFile(const pb::FileDescriptor& file, std::set<const pb::FileDescriptor*>* seen,
             grpc::reflection::v1::FileDescriptorResponse* response) {
  if (!seen->insert(&file).second) return;
  pb::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), seen, response);
}

void AnswerFile(const pb::FileDescriptor* file, Answer* answer) {
  if (file == nullptr) return Refuse(grpc::StatusCode::NOT_FOUND, "there is no such file", answer);
  std::set<const pb::FileDescriptor*> seen;
  AddFile(*file, &seen, answer->mutable_file_descriptor_response());
}

void AnswerExtension(const grpc::reflection::v1::ExtensionRequest& asked,
                     const pb::DescriptorPool& pool, Answer* answer) {
  const pb::Descriptor* const type = pool.FindMessageTypeByName(asked.containing_type());
  const pb::FieldDescriptor* const extension =
      type == nullptr ? nullptr : pool.FindExtensionByNumber(type, asked.extension_number());
  AnswerFile(extension == nullptr ? nullptr : extension->file(), answer);
}

void AnswerExtensionNumbers(const std::string& name, const pb::DescriptorPool& pool,
                            Answer* answer) {
  const pb::Descriptor* const type = pool.FindMessageTypeByName(name);
  if (type == nullptr) {
    return Refuse(grpc::StatusCode::NOT_FOUND, "there is no such message", answer);
  }
  std::vector<const pb::FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  auto* const response = answer->mutable_all_extension_numbers_response();
  response->set_base_type_name(name);
  for (const pb::FieldDescriptor* extension : extensions) {
    response->add_extension_number(extension->number());
  }
}

void Fill(const Question& question, const std::vector<std::string>& names, Answer* answer) {
  const pb::DescriptorPool& pool = *pb::DescriptorPool::generated_pool();
  answer->set_valid_host(question.host());
  *answer->mutable_original_request() = question;
  switch (question.message_request_case()) {
    case Question::kFileByFilename:
      return AnswerFile(pool.FindFileByName(question.file_by_filename()), answer);
    case Question::kFileContainingSymbol:
      return AnswerFile(pool.FindFileContainingSymbol(question.file_containing_symbol()), answer);
    case Question::kFileContainingExtension:
      return AnswerExtension(question.file_containing_extension(), pool, answer);
    case Question::kAllExtensionNumbersOfType:
      return AnswerExtensionNumbers(question.all_extension_numbers_of_type(), pool, answer);
    case Question::kListServices:
      for (const std::string& name : names) {
        answer->mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case Question::MESSAGE_REQUEST_NOT_SET:
      return Refuse(grpc::StatusCode::INVALID_ARGUMENT, "message_request must be set", answer);
  }
}

class Call : public grpc::ServerBidiReactor<Question, Answer> {
 public:
  explicit Call(const std::vector<std::string>* names) : names_(names) { StartRead(&question_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    answer_.Clear();
    Fill(question_, *names_, &answer_);
    StartWrite(&answer_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&question_);
  }
  void OnDone() override { delete this; }

 private:
  const std::vector<std::string>* const names_;
  Question question_;
  Answer answer_;
};

}  // namespace

ReflectionService::ReflectionService(std::vector<std::string> names) : names_(std::move(names)) {
  names_.emplace_back(grpc::reflection::v1::ServerReflection::service_full_name());
  std::sort(names_.begin(), names_.end());
}

grpc::ServerBidiReactor<Question, Answer>* ReflectionService::ServerReflectionInfo(
    grpc::CallbackServerContext*) {
  return new Call(&names_);
}

}  // namespace tutti::door
