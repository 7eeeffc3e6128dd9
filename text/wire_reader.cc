#include "text/wire_reader.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace tutti::text {
namespace {

constexpr int kTypeBits = 3;

absl::Status EndsTooEarly() { return absl::InvalidArgumentError("ends within a field"); }

}  // namespace

absl::StatusOr<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return EndsTooEarly();
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return absl::InvalidArgumentError("a number has more than 10 bytes");
}

absl::StatusOr<uint64_t> WireReader::Fixed(size_t bytes) {
  if (rest_.size() < bytes) return EndsTooEarly();
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(bytes);
  return value;
}

absl::StatusOr<WireReader::Field> WireReader::Next() {
  TUTTI_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  Field field;
  field.number = static_cast<int64_t>(tag >> kTypeBits);
  switch (tag & ((1 << kTypeBits) - 1)) {
    case 0: {
      TUTTI_ASSIGN_OR_RETURN(field.value, Varint());
      return field;
    }
    case 1: {
      field.type = Type::kFixed64;
      TUTTI_ASSIGN_OR_RETURN(field.value, Fixed(8));
      return field;
    }
    case 2: {
      field.type = Type::kBytes;
      TUTTI_ASSIGN_OR_RETURN(const uint64_t length, Varint());
      if (length > rest_.size()) return EndsTooEarly();
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return field;
    }
    case 5: {
      field.type = Type::kFixed32;
      TUTTI_ASSIGN_OR_RETURN(field.value, Fixed(4));
      return field;
    }
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("field ", field.number, " has the unknown type ", tag & 7));
  }
}

}  // namespace tutti::text
