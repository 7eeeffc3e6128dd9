// The digest of token ids by which a client says what it has of an output: ResumedOutput.digest.
#pragma once

#include <cstdint>

namespace tutti {

// FNV-1a, 64 bits, over ids as 4 bytes each, the lowest first.  Thread: one.
class IdDigest {
 public:
  IdDigest() = default;
  // Goes on after the ids of which `value` is the digest.
  explicit IdDigest(uint64_t value) : value_(value) {}

  void Add(int32_t id) {
    for (int i = 0; i < 4; ++i) {
      value_ = (value_ ^ (static_cast<uint32_t>(id) >> (8 * i) & 0xff)) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace tutti
