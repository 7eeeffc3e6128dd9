// Reads the wire format of protocol buffers, field by field, from untrusted bytes.
//
// sentencepiece models are protocol buffers. Reading the few fields that matter here keeps the
// message library out of the text side, and names faults by their place.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace tutti::text {

// Thread: one at a time.
class WireReader {
 public:
  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    int64_t number = 0;
    Type type = Type::kVarint;
    uint64_t value = 0;      // kVarint, kFixed64, kFixed32
    std::string_view bytes;  // kBytes: within the bytes read
  };

  // REQUIRES: `bytes` outlives this and the fields read
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  // Errors: InvalidArgument when the bytes end too early, or hold no valid field (groups, which
  // nothing writes any more, are refused too).  REQUIRES: !done()
  absl::StatusOr<Field> Next();

 private:
  absl::StatusOr<uint64_t> Varint();
  absl::StatusOr<uint64_t> Fixed(size_t bytes);

  std::string_view rest_;
};

}  // namespace tutti::text
