#include "transport/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>

namespace tutti::transport {
namespace {

std::vector<std::byte> Bytes(size_t size, int first, int step) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(first + step * static_cast<int>(i));
  }
  return bytes;
}

// Long enough for both lane lengths and a rest; no two places alike.
std::vector<std::byte> Noise(size_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t state = 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// One bit at a time, straight from the definition.
uint32_t Slow(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

// RFC 3720, appendix B.4, and the check value of the algorithm's catalogue entry.
TEST(Crc32cTest, KnownAnswers) {
  EXPECT_EQ(Crc32c(Bytes(32, 0, 0)), 0x8a9136aau);
  EXPECT_EQ(Crc32c(Bytes(32, 0xff, 0)), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(Bytes(32, 0, 1)), 0x46dd794eu);
  EXPECT_EQ(Crc32c(Bytes(32, 31, -1)), 0x113fdb5cu);
  const unsigned char read_command[48] = {
      0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(read_command))), 0xd9963a56u);
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::span<const std::byte>()), 0u);
}

TEST(Crc32cTest, BothImplementationsFollowTheDefinitionAtEverySizeAndAlignment) {
  const auto bytes = Noise(3 * 4096 * 2 + 3 * 256 + 77);
  std::vector<size_t> sizes(40);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (size_t edge : {3u * 256, 2u * 3 * 256, 3u * 4096, 3u * 4096 + 3 * 256, 2u * 3 * 4096}) {
    for (size_t size : {edge - 1, edge, edge + 1, edge + 9}) sizes.push_back(size);
  }
  for (size_t offset = 0; offset < 8; ++offset) {
    for (size_t size : sizes) {
      const auto part = std::span(bytes).subspan(offset, size);
      const uint32_t expected = Slow(part);
      ASSERT_EQ(internal::ExtendCrc32cTable(0, part), expected) << offset << " " << size;
      if (internal::HasCrc32cInstruction()) {
        ASSERT_EQ(internal::ExtendCrc32cSse42(0, part), expected) << offset << " " << size;
      }
    }
  }
}

TEST(Crc32cTest, PartsGiveTheSumOfTheWhole) {
  const auto bytes = Noise(20000);
  const std::span whole(bytes);
  const uint32_t expected = Slow(whole);
  for (size_t cut : {0u, 1u, 7u, 8u, 4096u, 13000u, 20000u}) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(whole.first(cut)), whole.subspan(cut)), expected) << cut;
  }
  EXPECT_EQ(Crc32c({whole.first(3), whole.subspan(3, 0), whole.subspan(3)}), expected);
}

TEST(Crc32cTest, EverySingleFlippedBitIsFound) {
  auto bytes = Noise(1024);
  const uint32_t expected = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1 << (bit % 8));
    bytes[bit / 8] ^= mask;
    ASSERT_NE(Crc32c(bytes), expected) << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace tutti::transport
