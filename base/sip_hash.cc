#include "base/sip_hash.h"

#include <bit>
#include <cstddef>

namespace tutti {
namespace {

class SipHash {
 public:
  explicit SipHash(const Hash128& key)
      : v0_(key.low ^ 0x736f6d6570736575),
        v1_(key.high ^ 0x646f72616e646f6d ^ kWideOutput),
        v2_(key.low ^ 0x6c7967656e657261),
        v3_(key.high ^ 0x7465646279746573) {}

  void Absorb(uint64_t word) {
    v3_ ^= word;
    Round();
    Round();
    v0_ ^= word;
  }

  // `rest`: the last bytes that fill no word; `length`: of everything, in bytes.
  Hash128 Finish(uint64_t rest, size_t length) {
    Absorb(rest | static_cast<uint64_t>(length) << 56);
    Hash128 hash;
    v2_ ^= kWideOutput;
    hash.low = Squeeze();
    v1_ ^= kSecondHalf;
    hash.high = Squeeze();
    return hash;
  }

 private:
  static constexpr uint64_t kWideOutput = 0xee;
  static constexpr uint64_t kSecondHalf = 0xdd;

  void Round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t Squeeze() {
    for (int i = 0; i < 4; ++i) Round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

  uint64_t v0_, v1_, v2_, v3_;
};

// The bytes as a number, the first least significant.
uint64_t Word(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return word;
}

}  // namespace

Hash128 HashBytes(const Hash128& key, std::string_view bytes) {
  const size_t length = bytes.size();
  SipHash hash(key);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) hash.Absorb(Word(bytes.substr(0, 8)));
  return hash.Finish(Word(bytes), length);
}

Hash128 HashBlock(const Hash128& key, const Hash128& parent, std::span<const TokenId> tokens) {
  SipHash hash(key);
  hash.Absorb(parent.low);
  hash.Absorb(parent.high);
  size_t i = 0;
  for (; i + 1 < tokens.size(); i += 2) {
    hash.Absorb(static_cast<uint32_t>(tokens[i]) |
                static_cast<uint64_t>(static_cast<uint32_t>(tokens[i + 1])) << 32);
  }
  const uint64_t rest = i < tokens.size() ? static_cast<uint32_t>(tokens[i]) : 0;
  return hash.Finish(rest, sizeof(Hash128) + tokens.size() * sizeof(TokenId));
}

}  // namespace tutti
