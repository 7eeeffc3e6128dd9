// CRC-32C (Castagnoli, as in iSCSI): the checksum of payloads and frames.
//
// It finds every error burst of up to 32 bits and all but one in 4 billion of the others, at memory
// speed: TCP's own sum misses swapped words, and bits also flip in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::transport {

// The checksum of the bytes that gave `crc`, followed by `bytes`. Of nothing it is 0.  Thread: any.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes);

inline uint32_t Crc32c(std::span<const std::byte> bytes) { return ExtendCrc32c(0, bytes); }

// The checksum of the chunks in order, as if they lay side by side.
uint32_t Crc32c(const std::vector<std::span<const std::byte>>& chunks);

namespace internal {
// The two implementations, for tests. The second needs SSE4.2; HasCrc32cInstruction says whether it
// is there.
uint32_t ExtendCrc32cTable(uint32_t crc, std::span<const std::byte> bytes);
uint32_t ExtendCrc32cSse42(uint32_t crc, std::span<const std::byte> bytes);
bool HasCrc32cInstruction();
}  // namespace internal

}  // namespace tutti::transport
