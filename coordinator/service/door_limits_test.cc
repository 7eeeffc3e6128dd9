// Every field that a client can send has a declared limit, and each limit is tried: at the limit,
// one beyond, and at a thousand times as much.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/detokenize.h"
#include "coordinator/service/prompt_requests.h"
#include "coordinator/service/request_builder.h"
#include "coordinator/service/request_limits.h"
#include "door/grpc/message_parser.h"
#include "door/limits.h"
#include "door/tenant.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;
using Kind = RequestFieldLimit::Kind;

std::string NameOf(const FieldDescriptor& field) {
  return absl::StrCat(field.containing_type()->name(), ".", field.name());
}

void CollectFields(const Descriptor& type, std::map<std::string, const FieldDescriptor*>* fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!fields->emplace(NameOf(field), &field).second) continue;
    if (field.message_type() != nullptr) CollectFields(*field.message_type(), fields);
  }
}

std::map<std::string, const FieldDescriptor*> AllFields() {
  std::map<std::string, const FieldDescriptor*> fields;
  for (const Descriptor* type :
       {v1::GenerateRequest::descriptor(), v1::TokenizeRequest::descriptor(),
        v1::DetokenizeRequest::descriptor(), v1::GetModelRequest::descriptor(),
        v1::LookupPrefixRequest::descriptor()}) {
    CollectFields(*type, &fields);
  }
  return fields;
}

TEST(DoorLimits, EveryFieldHasOneAndNoOtherHas) {
  std::set<std::string> with, without;
  for (const RequestFieldLimit& limit : RequestFieldLimits()) {
    EXPECT_TRUE(with.insert(std::string(limit.field)).second) << limit.field << " twice";
  }
  for (const auto& [name, field] : AllFields()) {
    EXPECT_TRUE(with.erase(name) > 0)
        << name << " has no limit: declare it in coordinator/service/request_limits.cc";
  }
  EXPECT_TRUE(with.empty()) << *with.begin() << " is no field of a request";
}

// Methods that are added need a line in AllFields.
TEST(DoorLimits, AllRequestsOfTheApiAreWalked) {
  const auto fields = AllFields();
  const auto* file = v1::GenerateRequest::descriptor()->file();
  for (int s = 0; s < file->service_count(); ++s) {
    for (int m = 0; m < file->service(s)->method_count(); ++m) {
      const Descriptor* type = file->service(s)->method(m)->input_type();
      if (type->field_count() == 0) continue;
      EXPECT_TRUE(fields.contains(NameOf(*type->field(0)))) << type->full_name();
    }
  }
}

class DoorLimitsTest : public ::testing::TestWithParam<RequestFieldLimit> {
 protected:
  static void SetUpTestSuite() { model_ = LoadDemoModel().release(); }
  static void TearDownTestSuite() { delete model_; }

  // A request that is taken as it is, and in it the message that has the field.
  struct Prepared {
    std::unique_ptr<Message> request;
    Message* holder = nullptr;
  };
  static Prepared Prepare(const FieldDescriptor& field) {
    const std::string& type = field.containing_type()->name();
    if (type == "DetokenizeRequest") return Holding(std::make_unique<v1::DetokenizeRequest>());
    if (type == "TokenizeRequest" || type == "LookupPrefixRequest") {
      auto prepared = type == "TokenizeRequest"
                          ? Holding(std::make_unique<v1::TokenizeRequest>())
                          : Holding(std::make_unique<v1::LookupPrefixRequest>());
      const auto& reflection = *prepared.request->GetReflection();
      const FieldDescriptor* text = field.containing_type()->FindFieldByName("text");
      reflection.SetString(prepared.request.get(), text, "hello");
      return prepared;
    }
    return PrepareGenerate(type, field.name());
  }
  static Prepared Holding(std::unique_ptr<Message> request) {
    Message* const holder = request.get();
    return {std::move(request), holder};
  }
  static Prepared PrepareGenerate(const std::string& type, const std::string& name) {
    auto made = std::make_unique<v1::GenerateRequest>();
    v1::GenerateRequest& request = *made;
    Prepared prepared = {std::move(made), nullptr};
    request.set_text("hello");
    if (type == "GenerateRequest") prepared.holder = &request;
    if (type == "SamplingParams") {
      prepared.holder = request.mutable_sampling();
      request.mutable_sampling()->set_logprobs(name == "top_logprobs");
    }
    if (type == "TokenIds") prepared.holder = request.mutable_token_ids();
    if (type == "Speculation") {
      prepared.holder = request.mutable_speculation();
      request.mutable_speculation()->set_mode(v1::Speculation::MODE_LOOKUP);
    }
    if (type == "ChatMessages" || type == "ChatMessage" || type == "ToolCall") {
      v1::ChatMessage* message = nullptr;
      if (name != "messages") message = request.mutable_chat()->add_messages();
      if (type == "ChatMessages") prepared.holder = request.mutable_chat();
      if (message != nullptr) {
        const bool of_assistant = type == "ToolCall" || name == "tool_calls" ||
                                  name == "reasoning_content" || name == "metadata";
        message->set_role(of_assistant ? "assistant" : name == "tool_call_id" ? "tool" : "user");
      }
      if (type == "ChatMessage") prepared.holder = message;
      if (type == "ToolCall") {
        message->add_tool_calls()->set_name("f");
        prepared.holder = message->mutable_tool_calls(0);
      }
    }
    CHECK(prepared.holder != nullptr) << "no way to prepare a " << type;
    return prepared;
  }

  // A try as the service does it, from bytes.
  static absl::Status Try(const Message& request) {
    const std::string bytes = request.SerializeAsString();
    if (static_cast<int64_t>(bytes.size()) > door::kRequestBytesMax) {
      return absl::ResourceExhaustedError("gRPC's own limit");  // service_test.cc
    }
    const grpc::Slice slice(bytes);
    const std::unique_ptr<Message> parsed(request.New());
    TUTTI_RETURN_IF_ERROR(door::ParseMessage(grpc::ByteBuffer(&slice, 1), parsed.get()));
    if (const auto* generate = dynamic_cast<v1::GenerateRequest*>(parsed.get())) {
      TUTTI_RETURN_IF_ERROR(
          door::TenantOf(generate->tenant(), {}, {.may_name_tenant = true}).status());
      return BuildRequest(*generate, *model_).status();
    }
    if (const auto* tokenize = dynamic_cast<v1::TokenizeRequest*>(parsed.get())) {
      v1::TokenizeResponse response;
      return Tokenize(*tokenize, *model_, &response);
    }
    if (const auto* detokenize = dynamic_cast<v1::DetokenizeRequest*>(parsed.get())) {
      v1::DetokenizeResponse response;
      return Detokenize(*detokenize, *model_, &response);
    }
    return ReadLookup(dynamic_cast<v1::LookupPrefixRequest&>(*parsed), {}, *model_).status();
  }

  // A text of so many bytes that the field may hold.
  static std::string TextFor(const FieldDescriptor& field, int64_t bytes) {
    if (field.name().find("_json") == std::string::npos) {
      return std::string(static_cast<size_t>(bytes), 'a');
    }
    return "{" + std::string(static_cast<size_t>(bytes) - 2, ' ') + "}";
  }
  static void SetNumber(const FieldDescriptor& field, double value, Message* holder) {
    const auto& reflection = *holder->GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.SetInt32(holder, &field, static_cast<int32_t>(value));
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.SetUInt32(holder, &field, static_cast<uint32_t>(value));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection.SetFloat(holder, &field, static_cast<float>(value));
      default:
        FAIL() << NameOf(field) << " is no number";
    }
  }
  static void AddEntries(const FieldDescriptor& field, int64_t count, Message* holder) {
    const auto& reflection = *holder->GetReflection();
    for (int64_t i = 0; i < count; ++i) {
      if (field.name() == "logit_bias") {
        (*static_cast<v1::SamplingParams*>(holder)->mutable_logit_bias())[static_cast<int32_t>(i)] =
            1;
      } else if (field.name() == "messages") {
        auto* message = static_cast<v1::ChatMessage*>(reflection.AddMessage(holder, &field));
        message->set_role("user");
      } else if (field.name() == "tool_calls") {
        static_cast<v1::ToolCall*>(reflection.AddMessage(holder, &field))->set_name("f");
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        reflection.AddString(holder, &field, absl::StrCat("stop", i));
      } else {
        reflection.AddInt32(holder, &field, 0);
      }
    }
  }

  static absl::Status TryWith(const FieldDescriptor& field, Kind kind, double value) {
    const Prepared prepared = Prepare(field);
    const auto whole = static_cast<int64_t>(value);
    if (kind == Kind::kValue) {
      SetNumber(field, value, prepared.holder);
    } else if (kind == Kind::kBytes) {
      prepared.holder->GetReflection()->SetString(prepared.holder, &field, TextFor(field, whole));
    } else {
      AddEntries(field, whole, prepared.holder);
    }
    return Try(*prepared.request);
  }
  // Refused by this limit, or for being larger than any message.
  static void ExpectBeyond(const FieldDescriptor& field, Kind kind, double value) {
    const absl::Status status = TryWith(field, kind, value);
    if (absl::IsResourceExhausted(status)) return;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << NameOf(field) << " = " << value << ": " << status;
    // Every text counts to the bytes of its conversation.
    const bool summed = field.name() == "content" || field.name() == "reasoning_content" ||
                        field.name() == "arguments_json";
    const bool too_many_fields = std::string(status.message()).find("fields") != std::string::npos;
    if (!too_many_fields) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(summed ? "messages" : field.name()));
    }
  }
  // Taken, or refused for something that is not this field's: the demo model's context is short.
  static void ExpectWithin(const FieldDescriptor& field, Kind kind, double value) {
    const absl::Status status = TryWith(field, kind, value);
    if (status.ok()) return;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AnyOf(HasSubstr("the context of"), HasSubstr("chat template")))
        << NameOf(field) << " = " << value << ": " << status;
  }

  static const ServedModel* model_;
};
const ServedModel* DoorLimitsTest::model_ = nullptr;

TEST_P(DoorLimitsTest, HoldsAtItsEdges) {
  const RequestFieldLimit& limit = GetParam();
  const FieldDescriptor& field = *AllFields().at(std::string(limit.field));
  // The name of a call counts to the bytes of its conversation, too.
  const double beside = limit.field == "ToolCall.arguments_json" ? 1 : 0;
  ExpectWithin(field, limit.kind, limit.high - beside);
  if (limit.kind != Kind::kValue) {
    ExpectBeyond(field, limit.kind, limit.high + 1);
    if (limit.high * 1000 < 1e8) ExpectBeyond(field, limit.kind, limit.high * 1000);
    return;
  }
  const bool real = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
  const bool whole_range = limit.high == std::numeric_limits<int32_t>::max();
  if (!whole_range) {
    ExpectBeyond(field, limit.kind,
                 real ? std::nextafterf(static_cast<float>(limit.high), INFINITY) : limit.high + 1);
    ExpectBeyond(field, limit.kind, limit.high * 1000);
  }
  if (limit.low_open) {
    ExpectBeyond(field, limit.kind, limit.low);
    ExpectWithin(field, limit.kind, std::nextafterf(static_cast<float>(limit.low), INFINITY));
  } else {
    ExpectWithin(field, limit.kind, limit.low);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) return;
  ExpectBeyond(field, limit.kind,
               real ? std::nextafterf(static_cast<float>(limit.low), -INFINITY) : limit.low - 1);
  ExpectBeyond(field, limit.kind, (limit.low - 1) * 1000);
  if (real) ExpectBeyond(field, limit.kind, NAN);
}

std::vector<RequestFieldLimit> Tried() {
  std::vector<RequestFieldLimit> tried;
  for (const RequestFieldLimit& limit : RequestFieldLimits()) {
    const bool has_edges = limit.kind == Kind::kBytes || limit.kind == Kind::kCount ||
                           limit.kind == Kind::kValue ||
                           (limit.kind == Kind::kId && limit.high > 0);
    // A bias is tried by its entry.
    const bool is_entry = limit.field.find("LogitBiasEntry") != std::string_view::npos;
    if (has_edges && !is_entry) tried.push_back(limit);
  }
  return tried;
}

INSTANTIATE_TEST_SUITE_P(AllFields, DoorLimitsTest, ::testing::ValuesIn(Tried()),
                         [](const auto& instance) {
                           std::string name(instance.param.field);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Conversations of all requests have one reader; here is seen that each asks it.
TEST(DoorLimits, ConversationsOfOtherRequestsHaveThem) {
  const auto model = LoadDemoModel();
  v1::ChatMessages chat;
  const auto try_both = [&] {
    v1::TokenizeRequest tokenize;
    *tokenize.mutable_chat() = chat;
    v1::TokenizeResponse response;
    const absl::Status status = Tokenize(tokenize, *model, &response);
    v1::LookupPrefixRequest lookup;
    *lookup.mutable_chat() = chat;
    EXPECT_EQ(ReadLookup(lookup, {}, *model).status().code(), status.code()) << status;
    return status;
  };
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("user");
  EXPECT_TRUE(try_both().ok());
  message.set_name(std::string(door::kChatNameBytesMax + 1, 'a'));
  EXPECT_THAT(std::string(try_both().message()), HasSubstr("chat.messages[0].name"));
  message.clear_name();
  message.set_role("somebody");
  EXPECT_THAT(std::string(try_both().message()), HasSubstr("chat.messages[0].role"));
  message.set_role("user");
  message.set_content(std::string(door::kPromptBytesMax + 1, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(try_both()));
  for (const int64_t count : {door::kChatMessagesMax + 1, door::kChatMessagesMax * 10}) {
    chat.clear_messages();
    for (int64_t i = 0; i < count; ++i) chat.add_messages()->set_role("user");
    EXPECT_THAT(std::string(try_both().message()), HasSubstr("messages"));
  }
}

// A prompt that no context holds is in no cache, whatever it is made of.
TEST(DoorLimits, OfALookupIsTheContext) {
  const auto model = LoadDemoModel();
  const auto with_ids = [&](int64_t count) {
    v1::LookupPrefixRequest lookup;
    lookup.mutable_token_ids()->mutable_ids()->Resize(static_cast<int>(count), 1);
    return ReadLookup(lookup, {}, *model).status();
  };
  const int64_t context = model->max_model_len;
  EXPECT_TRUE(with_ids(context).ok());
  for (const int64_t beyond : {context + 1, context * 1000}) {
    EXPECT_EQ(with_ids(beyond).code(), absl::StatusCode::kInvalidArgument);
  }
  v1::LookupPrefixRequest lookup;
  for (int64_t i = 0; i <= context; ++i) lookup.mutable_text()->append(" a");
  EXPECT_EQ(ReadLookup(lookup, {}, *model).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadLookup({}, {}, *model).status().code(), absl::StatusCode::kInvalidArgument);
}

// The limits that depend on the served model.
TEST(DoorLimits, OfTheModelHoldAtTheirEdges) {
  const auto model = LoadDemoModel();
  const auto build = [&](auto change) {
    v1::GenerateRequest request;
    request.mutable_token_ids()->add_ids(0);
    change(&request);
    return BuildRequest(request, *model).status().code();
  };
  const auto with_prompt = [&](int64_t tokens) {
    return build([tokens](v1::GenerateRequest* request) {
      request->mutable_token_ids()->mutable_ids()->Resize(static_cast<int>(tokens), 0);
    });
  };
  const auto with_output = [&](int64_t tokens) {
    return build([tokens](v1::GenerateRequest* request) {
      request->mutable_sampling()->set_max_tokens(static_cast<uint32_t>(tokens));
    });
  };
  const auto with_id = [&](int32_t id) {
    return build([id](v1::GenerateRequest* request) {
      request->mutable_token_ids()->set_ids(0, id);
      request->mutable_sampling()->add_stop_token_ids(id);
      (*request->mutable_sampling()->mutable_logit_bias())[id] = -100;
    });
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  const int64_t context = model->max_model_len;
  EXPECT_EQ(with_prompt(context - 1), absl::StatusCode::kOk);
  EXPECT_EQ(with_output(context - 1), absl::StatusCode::kOk);
  for (const int64_t beyond : {context, context * 1000}) {
    EXPECT_EQ(with_prompt(beyond), kBad);
    EXPECT_EQ(with_output(beyond), kBad);
  }
  EXPECT_EQ(with_output(0), kBad);
  const int32_t ids = model->config.vocab_size;
  EXPECT_EQ(with_id(ids - 1), absl::StatusCode::kOk);
  for (const int32_t beyond : {ids, ids * 1000, -1}) EXPECT_EQ(with_id(beyond), kBad);
}

}  // namespace
}  // namespace tutti::coordinator
