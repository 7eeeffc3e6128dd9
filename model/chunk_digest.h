// Digests of a checkpoint's bytes: each file in chunks of kDigestChunkBytes from its beginning,
// the last one shorter, 16 bytes of XXH3-128 each
// (docs/decisions/0037-digests-of-the-checkpoint.md).
//
// They find copies that differ by accident. They are no proof against somebody who makes a file to
// have the digests of another.
//
// Threads: pure functions and values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/limits.h"

namespace tutti::model {

using ChunkDigest = std::array<uint8_t, kChunkDigestBytes>;

ChunkDigest DigestOf(std::span<const std::byte> bytes);
std::string DigestText(std::string_view digest);  // in hexadecimal digits

// The number of chunks that a file of `bytes` bytes has.
constexpr int64_t ChunkCount(int64_t bytes) {
  return bytes / kDigestChunkBytes + (bytes % kDigestChunkBytes != 0 ? 1 : 0);
}

// Digests of consecutive chunks of a file.
struct ChunkRun {
  std::string file;  // its name in the checkpoint
  int64_t first_chunk = 0;
  std::string digests;  // [chunks * kChunkDigestBytes]
  int64_t chunks() const { return static_cast<int64_t>(digests.size()) / kChunkDigestBytes; }
};

// Consecutive chunks of a file, by number.
struct ChunkRange {
  int32_t file = 0;  // index into Checkpoint::files()
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const ChunkRange&) const = default;
};

// The chunks of `ranges` in ascending order, each once, neighbours joined.
std::vector<ChunkRange> JoinChunks(std::vector<ChunkRange> ranges);

}  // namespace tutti::model
