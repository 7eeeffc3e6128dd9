#include "door/grpc/message_parser.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "text/unicode.h"
#include "transport/grpc/frame_scan.h"

namespace tutti::door {
namespace {

namespace pb = google::protobuf;

// The same messages with every string a bytes field: they parse strings that are not UTF-8.
void TurnStringsIntoBytes(pb::DescriptorProto* message) {
  for (pb::FieldDescriptorProto& field : *message->mutable_field()) {
    // Keys of maps cannot be bytes.
    if (message->options().map_entry() && field.number() == 1) continue;
    if (field.type() == pb::FieldDescriptorProto::TYPE_STRING) {
      field.set_type(pb::FieldDescriptorProto::TYPE_BYTES);
    }
  }
  for (pb::DescriptorProto& nested : *message->mutable_nested_type()) TurnStringsIntoBytes(&nested);
}

// Walks `lenient` beside the real descriptor; the first string field that is not UTF-8, as an error
// text.
std::optional<std::string> FindBadString(const pb::Message& lenient, const pb::Descriptor& real,
                                         const std::string& path) {
  const pb::Reflection& reflection = *lenient.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(lenient, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const pb::FieldDescriptor* real_field = real.FindFieldByNumber(field->number());
    const int count = field->is_repeated() ? reflection.FieldSize(lenient, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string where = field->is_repeated()
                                    ? absl::StrCat(path, field->name(), "[", i, "]")
                                    : path + field->name();
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        const pb::Message& child = field->is_repeated()
                                       ? reflection.GetRepeatedMessage(lenient, field, i)
                                       : reflection.GetMessage(lenient, field);
        auto found = FindBadString(child, *real_field->message_type(), where + ".");
        if (found) return found;
      } else if (real_field->type() == pb::FieldDescriptor::TYPE_STRING) {
        const std::string value = field->is_repeated()
                                      ? reflection.GetRepeatedString(lenient, field, i)
                                      : reflection.GetString(lenient, field);
        if (const auto at = text::FindInvalidUtf8(value)) {
          return absl::StrCat(where, ": invalid UTF-8 at byte ", *at);
        }
      }
    }
  }
  return std::nullopt;
}

std::string NoSuchMessage(const pb::Descriptor& type) {
  return absl::StrCat("the request is not a ", type.full_name(), " message");
}

// The file, and before it those that it imports.
void AddWithBytesForStrings(const pb::FileDescriptor& real, pb::DescriptorPool* pool) {
  if (pool->FindFileByName(real.name()) != nullptr) return;
  for (int i = 0; i < real.dependency_count(); ++i) {
    AddWithBytesForStrings(*real.dependency(i), pool);
  }
  pb::FileDescriptorProto file;
  real.CopyTo(&file);
  file.clear_service();
  for (pb::DescriptorProto& message : *file.mutable_message_type()) TurnStringsIntoBytes(&message);
  pool->BuildFile(file);
}

// Only for messages that did not parse: nothing here is fast.
std::string Explain(const grpc::ByteBuffer& bytes, const pb::Descriptor& real) {
  const std::string otherwise = NoSuchMessage(real);
  pb::DescriptorPool pool;
  AddWithBytesForStrings(*real.file(), &pool);
  pb::DynamicMessageFactory factory(&pool);
  const pb::Descriptor* descriptor = pool.FindMessageTypeByName(real.full_name());
  if (descriptor == nullptr) return otherwise;
  const std::unique_ptr<pb::Message> lenient(factory.GetPrototype(descriptor)->New());
  grpc::ByteBuffer copy(bytes);
  grpc::ProtoBufferReader reader(&copy);
  if (!lenient->ParseFromZeroCopyStream(&reader)) return otherwise;
  return FindBadString(*lenient, real, "").value_or(otherwise);
}

absl::Status CheckFieldCount(const grpc::ByteBuffer& bytes, const pb::Descriptor* type) {
  std::vector<grpc::Slice> slices;                         // refer to the same bytes
  if (!bytes.Dump(&slices).ok()) return absl::OkStatus();  // an empty message
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) {
    pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  const std::optional<int64_t> fields = transport::CountFields(pieces, type, kRequestFieldsMax);
  // Groups, which protobuf would still take, count as malformed: none of our messages has one.
  if (!fields) return absl::InvalidArgumentError(NoSuchMessage(*type));
  if (*fields <= kRequestFieldsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request has more than ", kRequestFieldsMax,
                   " fields; ids are one field in protobuf's packed form"));
}

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, pb::Message* message) {
  TUTTI_RETURN_IF_ERROR(CheckFieldCount(bytes, message->GetDescriptor()));
  {
    grpc::ByteBuffer copy(bytes);  // shares the slices
    grpc::ProtoBufferReader reader(&copy);
    if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Explain(bytes, *message->GetDescriptor()));
}

}  // namespace tutti::door
