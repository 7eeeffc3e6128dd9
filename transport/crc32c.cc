#include "transport/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tutti::transport {
namespace {

// The polynomial with its bits reversed: in a register, bit 31 is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82f63b78;

// a * b modulo the polynomial.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes): multiplying a CRC by it gives the CRC after `bytes` zero bytes.
constexpr uint32_t ShiftBy(uint64_t bytes) {
  uint32_t power = uint32_t{1} << 31;   // x^0
  uint32_t square = uint32_t{1} << 23;  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = Multiply(power, square);
    square = Multiply(square, square);
  }
  return power;
}

// [i][v]: the CRC of byte v followed by i zero bytes. Eight of them take eight bytes at a time.
constexpr auto kByteTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t value = 0; value < 256; ++value) {
    uint32_t crc = value;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) ? (crc >> 1) ^ kPolynomial : crc >> 1;
    tables[0][value] = crc;
  }
  for (size_t i = 1; i < tables.size(); ++i) {
    for (size_t value = 0; value < 256; ++value) {
      const uint32_t previous = tables[i - 1][value];
      tables[i][value] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}();

uint64_t Load64(const std::byte* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

#if defined(__x86_64__)

// Multiplication by a fixed power, as four table look-ups: [i][v] is v at byte i of the CRC.
using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr ShiftTable MakeShiftTable(uint64_t bytes) {
  const uint32_t power = ShiftBy(bytes);
  ShiftTable table{};
  for (uint32_t i = 0; i < 4; ++i) {
    // The product is linear: eight multiplications give the other 248 entries by addition.
    for (uint32_t bit = 0; bit < 8; ++bit) {
      table[i][uint32_t{1} << bit] = Multiply(power, uint32_t{1} << (8 * i + bit));
    }
    for (uint32_t value = 1; value < 256; ++value) {
      const uint32_t lowest = value & (~value + 1);
      table[i][value] = table[i][lowest] ^ table[i][value ^ lowest];
    }
  }
  return table;
}

uint32_t Shift(const ShiftTable& table, uint32_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^
         table[3][crc >> 24];
}

// The instruction takes three cycles and one can start in each, so three lanes run side by side and
// are joined by shifting. Long lanes amortise the joining, short ones serve the rest.
constexpr size_t kLongLane = 4096;
constexpr size_t kShortLane = 256;
constexpr ShiftTable kLongShift = MakeShiftTable(kLongLane);
constexpr ShiftTable kShortShift = MakeShiftTable(kShortLane);

template <size_t kLane>
__attribute__((target("sse4.2"))) uint32_t ThreeLanes(uint32_t crc, const ShiftTable& shift,
                                                      const std::byte** data, size_t* size) {
  while (*size >= 3 * kLane) {
    uint64_t a = crc, b = 0, c = 0;
    const std::byte* at = *data;
    for (size_t i = 0; i < kLane; i += 8) {
      a = _mm_crc32_u64(a, Load64(at + i));
      b = _mm_crc32_u64(b, Load64(at + kLane + i));
      c = _mm_crc32_u64(c, Load64(at + 2 * kLane + i));
    }
    crc = Shift(shift, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = Shift(shift, crc) ^ static_cast<uint32_t>(c);
    *data += 3 * kLane;
    *size -= 3 * kLane;
  }
  return crc;
}

#endif

}  // namespace

namespace internal {

uint32_t ExtendCrc32cTable(uint32_t crc, std::span<const std::byte> bytes) {
  const std::byte* data = bytes.data();
  size_t size = bytes.size();
  crc = ~crc;
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = Load64(data) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kByteTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size > 0; ++data, --size) {
    crc = (crc >> 8) ^ kByteTables[0][(crc ^ static_cast<uint32_t>(*data)) & 0xff];
  }
  return ~crc;
}

#if defined(__x86_64__)

bool HasCrc32cInstruction() { return __builtin_cpu_supports("sse4.2"); }

__attribute__((target("sse4.2"))) uint32_t ExtendCrc32cSse42(uint32_t crc,
                                                             std::span<const std::byte> bytes) {
  const std::byte* data = bytes.data();
  size_t size = bytes.size();
  crc = ~crc;
  crc = ThreeLanes<kLongLane>(crc, kLongShift, &data, &size);
  crc = ThreeLanes<kShortLane>(crc, kShortShift, &data, &size);
  uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, Load64(data));
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return ~crc;
}

#else

bool HasCrc32cInstruction() { return false; }

uint32_t ExtendCrc32cSse42(uint32_t crc, std::span<const std::byte> bytes) {
  return ExtendCrc32cTable(crc, bytes);
}

#endif

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes) {
  static const auto extend = internal::HasCrc32cInstruction() ? &internal::ExtendCrc32cSse42
                                                              : &internal::ExtendCrc32cTable;
  return extend(crc, bytes);
}

uint32_t Crc32c(const std::vector<std::span<const std::byte>>& chunks) {
  uint32_t crc = 0;
  for (const auto& chunk : chunks) crc = ExtendCrc32c(crc, chunk);
  return crc;
}

}  // namespace tutti::transport
