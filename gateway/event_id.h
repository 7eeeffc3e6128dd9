// The id of a server-sent event: how much of its answer a client has that read this event and those
// before it. A gateway that has never heard of the answer goes on with it by the id and the same
// request (event_stream.h).
//
// In an id are the service's resume token, and for each output the count and a digest of its tokens
// and the bytes of its text. The token is signed by the service and good for one request of one
// tenant. The rest steers only what its own sender is shown of an answer that is his, and is not
// secret: it has a checksum against damage, what it claims is compared with what can be before
// anything is computed (CheckClaims), and the digest with the tokens that are computed again.
//
// Pure.  Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/api_error.h"

namespace tutti::gateway {

// FNV-1a, 64 bits.
class Fnv {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  // The id as 4 bytes, the lowest first: as ResumedOutput.digest.
  void AddId(int32_t id) {
    for (int i = 0; i < 4; ++i) {
      value_ = (value_ ^ (static_cast<uint32_t>(id) >> (8 * i) & 0xff)) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// The position of an output.
struct OutputPosition {
  uint64_t tokens = 0;
  uint64_t bytes = 0;  // of its text as the service sends it
  bool finished = false;
  Fnv digest;  // of the tokens' ids
};

// A message of the service that makes several events, of which not all were sent.
struct PartOfMessage {
  uint64_t output = 0;
  uint64_t tokens = 0, bytes = 0;  // of the message
  bool finishes = false;
  uint64_t events = 0;  // sent of it

  bool operator==(const PartOfMessage&) const = default;
};

struct EventId {
  std::string name;  // of the answer, without its kind
  int64_t created = 0;
  std::string token;
  std::vector<OutputPosition> outputs;  // digests: only the values count
  std::vector<uint64_t> digests;        // of `outputs`
  std::optional<PartOfMessage> part;    // after those positions
  uint64_t end_events = 0;              // sent of those after the last output's end
};

// Writes the ids of one answer.
class EventIdWriter {
 public:
  EventIdWriter(std::string_view name, int64_t created, std::string_view token);
  // URL-safe; about 200 bytes for an answer of one output.
  std::string Write(const std::vector<OutputPosition>& outputs,
                    const std::optional<PartOfMessage>& part, uint64_t end_events) const;

 private:
  std::string prefix_;  // what all of them begin with, as text
  Fnv check_;           // of that
};

// An id of ours; or 400 that names the field.
std::variant<EventId, ApiError> ParseEventId(std::string_view text);
// 400 for an id that claims what cannot be: its sender may have made it up. An answer has so many
// outputs, of at most so many tokens each.
std::optional<ApiError> CheckClaims(const EventId& id, size_t outputs, uint64_t tokens_max);

}  // namespace tutti::gateway
