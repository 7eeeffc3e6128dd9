#include "transport/grpc/frame_scan.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/peer_messages.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// protobuf refuses to parse what is nested deeper.
constexpr size_t kDepthMax = 100;

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

// The places where the messages end that the reader is inside of, the outermost first, and their
// types.
struct Level {
  const Descriptor* type;
  int64_t end;
};

// Descends as far as the schema does, so the depth is ours and not the sender's, except where the
// schema itself is recursive: there protobuf's own limit of depth is the bound.
bool CountDown(PieceReader* reader, const Descriptor* type, int64_t* budget) {
  std::vector<Level> levels = {{type, reader->left()}};
  while (!levels.empty()) {
    const Level level = levels.back();
    if (reader->position() >= level.end) {
      if (reader->position() > level.end) return false;  // a field reaches beyond its message
      levels.pop_back();
      continue;
    }
    Tag tag;
    if (--*budget < 0 || !ReadTag(reader, &tag)) return false;
    if (tag.wire_type != kLengthDelimited) {
      if (!SkipScalar(reader, tag.wire_type)) return false;
      continue;
    }
    uint64_t length;
    if (!reader->ReadVarint(&length)) return false;
    if (reader->position() > level.end ||
        length > static_cast<uint64_t>(level.end - reader->position())) {
      return false;
    }
    const FieldDescriptor* field = level.type->FindFieldByNumber(static_cast<int>(tag.number));
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE &&
        levels.size() < kDepthMax) {
      levels.push_back({field->message_type(), reader->position() + static_cast<int64_t>(length)});
    } else if (!reader->Skip(length)) {
      return false;
    }
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
  if (layout.message_bytes > kMessageBytesMax + kChecksumFieldBytes) {
    return absl::InvalidArgumentError(absl::StrCat("frame: message of ",
                                                   layout.message_bytes - kChecksumFieldBytes,
                                                   " bytes, at most ", kMessageBytesMax));
  }
  if (layout.payload_bytes > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame: payload of ", layout.payload_bytes,
                                                   " bytes, at most ", kPayloadBytesMax));
  }
  return layout;
}

std::optional<int64_t> CountFields(std::span<const std::span<const std::byte>> message,
                                   const Descriptor* type, int64_t fields_max) {
  PieceReader reader(message);
  int64_t budget = fields_max;
  if (!CountDown(&reader, type, &budget) && budget >= 0) return std::nullopt;
  return fields_max - budget;
}

absl::Status CheckFieldCount(std::span<const std::byte> message) {
  const auto fields = CountFields(std::span(&message, 1), v1::Frame::descriptor(), kFrameFieldsMax);
  if (!fields) return absl::InvalidArgumentError("frame: malformed inside a nested message");
  if (*fields <= kFrameFieldsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("frame: more than ", kFrameFieldsMax, " fields"));
}

}  // namespace tutti::transport
