// Reads the protobuf wire format without building messages: where a frame's payload is, and whether
// the rest may be parsed in bounded memory. All input is untrusted.  Thread: any.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace tutti::transport {

// A message that lies in several pieces, read from front to back.
class PieceReader {
 public:
  // `pieces` must outlive the reader.
  explicit PieceReader(std::span<const std::span<const std::byte>> pieces);

  bool done() const { return position_ == size_; }
  int64_t position() const { return position_; }
  int64_t left() const { return size_ - position_; }
  // False, with the position anywhere, when the bytes end too early or are no varint of at most 64
  // bits.
  bool ReadVarint(uint64_t* value);
  bool Skip(uint64_t bytes);

 private:
  std::span<const std::span<const std::byte>> pieces_;
  size_t piece_ = 0;   // the piece that holds the next byte
  size_t offset_ = 0;  // of the next byte in it
  int64_t position_ = 0;
  int64_t size_ = 0;
};

// The places of an encoded Frame's parts.
struct FrameLayout {
  int64_t message_bytes = 0;  // everything before the payload field, checksum included
  int64_t payload_begin = 0;  // == total size when there is no payload
  int64_t payload_bytes = 0;
};

// INVALID_ARGUMENT when the top level is malformed, or the payload is not the last field or not the
// only one, or a part is larger than limits.h allows.
absl::StatusOr<FrameLayout> ScanFrame(std::span<const std::span<const std::byte>> pieces);

// The fields of a message of `type` that lies in pieces, nested ones included and a packed array
// counted once: `fields_max` + 1 when there are more, nothing when it is malformed. Two bytes on
// the wire can become a hundred in memory (an empty nested message), so it is the number of fields
// that bounds what parsing takes. Time is bounded by the fields counted, not by the bytes.
std::optional<int64_t> CountFields(std::span<const std::span<const std::byte>> message,
                                   const google::protobuf::Descriptor* type, int64_t fields_max);

// INVALID_ARGUMENT when `message`, a Frame without payload, is malformed or has more than
// kFrameFieldsMax fields.
absl::Status CheckFieldCount(std::span<const std::byte> message);

}  // namespace tutti::transport
