#include "transport/grpc/frame_scan.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/limits.h"
#include "tutti/v1/peer.pb.h"

namespace tutti::transport {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// The wire types of protobuf's encoding. Groups (3 and 4) are refused: none of our messages has
// one.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

struct Tag {
  uint32_t number;
  uint32_t wire_type;
};

bool ReadTag(PieceReader* reader, Tag* tag) {
  uint64_t value;
  if (!reader->ReadVarint(&value) || value > UINT32_MAX) return false;
  tag->number = static_cast<uint32_t>(value >> 3);
  tag->wire_type = static_cast<uint32_t>(value & 7);
  return tag->number != 0;
}

// Skips a value that is not length-delimited.
bool SkipScalar(PieceReader* reader, uint32_t wire_type) {
  uint64_t unused;
  switch (wire_type) {
    case kVarint:
      return reader->ReadVarint(&unused);
    case kFixed64:
      return reader->Skip(8);
    case kFixed32:
      return reader->Skip(4);
    default:
      return false;
  }
}

absl::Status Malformed(int64_t position) {
  return absl::InvalidArgumentError(absl::StrCat("frame: malformed at byte ", position));
}

// Descends as far as the schema does, so the depth is ours and not the sender's.
bool CountFields(std::span<const std::byte> message, const Descriptor* type, int64_t* budget) {
  const std::span<const std::byte> pieces[] = {message};
  PieceReader reader(pieces);
  while (!reader.done()) {
    Tag tag;
    if (--*budget < 0 || !ReadTag(&reader, &tag)) return false;
    if (tag.wire_type != kLengthDelimited) {
      if (!SkipScalar(&reader, tag.wire_type)) return false;
      continue;
    }
    uint64_t length;
    if (!reader.ReadVarint(&length)) return false;
    const auto begin = static_cast<size_t>(reader.position());
    if (!reader.Skip(length)) return false;
    const FieldDescriptor* field = type->FindFieldByNumber(static_cast<int>(tag.number));
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) continue;
    if (!CountFields(message.subspan(begin, length), field->message_type(), budget)) return false;
  }
  return true;
}

}  // namespace

PieceReader::PieceReader(std::span<const std::span<const std::byte>> pieces) : pieces_(pieces) {
  for (const auto& piece : pieces) size_ += static_cast<int64_t>(piece.size());
}

bool PieceReader::Skip(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(left())) return false;
  position_ += static_cast<int64_t>(bytes);
  while (bytes > 0) {
    const size_t here = std::min<size_t>(bytes, pieces_[piece_].size() - offset_);
    offset_ += here;
    bytes -= here;
    if (bytes > 0) {
      ++piece_;
      offset_ = 0;
    }
  }
  return true;
}

bool PieceReader::ReadVarint(uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (done()) return false;
    while (offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
    const auto byte = static_cast<uint64_t>(pieces_[piece_][offset_]);
    ++offset_;
    ++position_;
    *value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return shift < 63 || byte <= 1;
  }
  return false;
}

absl::StatusOr<FrameLayout> ScanFrame(std::span<const std::span<const std::byte>> pieces) {
  PieceReader reader(pieces);
  FrameLayout layout;
  while (!reader.done()) {
    Tag tag;
    if (!ReadTag(&reader, &tag)) return Malformed(reader.position());
    uint64_t length = 0;
    if (tag.wire_type == kLengthDelimited && !reader.ReadVarint(&length)) {
      return Malformed(reader.position());
    }
    if (tag.number == v1::Frame::kPayloadFieldNumber) {
      if (tag.wire_type != kLengthDelimited) return Malformed(reader.position());
      if (length != static_cast<uint64_t>(reader.left())) {
        return absl::InvalidArgumentError(absl::StrCat("frame: payload of ", length, " bytes with ",
                                                       reader.left(),
                                                       " bytes left; it must be the last field"));
      }
      layout.payload_begin = reader.position();
      layout.payload_bytes = reader.left();
      break;
    }
    const bool skipped = tag.wire_type == kLengthDelimited ? reader.Skip(length)
                                                           : SkipScalar(&reader, tag.wire_type);
    if (!skipped) return Malformed(reader.position());
    layout.message_bytes = layout.payload_begin = reader.position();
  }
  if (layout.message_bytes > kMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame: message of ", layout.message_bytes,
                                                   " bytes, at most ", kMessageBytesMax));
  }
  if (layout.payload_bytes > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame: payload of ", layout.payload_bytes,
                                                   " bytes, at most ", kPayloadBytesMax));
  }
  return layout;
}

absl::Status CheckFieldCount(std::span<const std::byte> message) {
  int64_t budget = kFrameFieldsMax;
  if (CountFields(message, v1::Frame::descriptor(), &budget)) return absl::OkStatus();
  if (budget >= 0) return absl::InvalidArgumentError("frame: malformed inside a nested message");
  return absl::InvalidArgumentError(absl::StrCat("frame: more than ", kFrameFieldsMax, " fields"));
}

}  // namespace tutti::transport
