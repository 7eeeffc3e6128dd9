#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// The key of the paper's test vectors: bytes 0 to 15.
constexpr Hash128 kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string Bytes(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// The answers of OpenSSL's SIPHASH of 16 bytes for the bytes 0, 1, 2...
TEST(PrefixHashTest, IsSipHash) {
  EXPECT_EQ(HashBytes(kKey, ""), (Hash128{0xe6a825ba047f81a3, 0x930255c71472f66d}));
  EXPECT_EQ(HashBytes(kKey, Bytes(1)), (Hash128{0x44af996bd8c187da, 0x45fc229b11597634}));
  EXPECT_EQ(HashBytes(kKey, Bytes(8)), (Hash128{0x61f55862baa9623b, 0xb49714f364e2830f}));
  EXPECT_EQ(HashBytes(kKey, Bytes(15)), (Hash128{0x11a8b03399e99354, 0xd9c3cf970fec087e}));
  EXPECT_EQ(HashBytes(kKey, Bytes(16)), (Hash128{0xbb54b067caa4e26e, 0x77052385bf1533fd}));
}

// The parent is the bytes 0 to 15, the tokens are those that follow.
TEST(PrefixHashTest, OfABlockIsOfItsBytes) {
  const std::vector<TokenId> tokens = {0x13121110, 0x17161514};
  EXPECT_EQ(HashBlock(kKey, kKey, std::span(tokens).first(1)),
            (Hash128{0x7390223f83fc259e, 0xeb3938e8a544933e}));
  EXPECT_EQ(HashBlock(kKey, kKey, tokens), (Hash128{0xd850bd78ae79b42d, 0xad32618a178a2a88}));
}

TEST(PrefixHashTest, EverythingCounts) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  const auto is_new = [&](const Hash128& hash) { return seen.emplace(hash.low, hash.high).second; };
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5};
  EXPECT_TRUE(is_new(HashBlock(kKey, {}, tokens)));
  EXPECT_TRUE(is_new(HashBlock({1, 0}, {}, tokens))) << "the key";
  EXPECT_TRUE(is_new(HashBlock(kKey, {0, 1}, tokens))) << "the parent";
  EXPECT_TRUE(is_new(HashBlock(kKey, {}, std::span(tokens).first(4)))) << "the length";
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<TokenId> other = tokens;
    other[i] += 1 << 20;
    EXPECT_TRUE(is_new(HashBlock(kKey, {}, other))) << "token " << i;
  }
  EXPECT_TRUE(is_new(HashBytes(kKey, std::string(1, '\0'))));
  EXPECT_TRUE(is_new(HashBytes(kKey, std::string(2, '\0'))));
}

}  // namespace
}  // namespace tutti
