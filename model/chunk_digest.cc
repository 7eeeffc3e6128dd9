#include "model/chunk_digest.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/escaping.h"
#include "model/xxh3.h"

namespace tutti::model {

ChunkDigest DigestOf(std::span<const std::byte> bytes) {
  ChunkDigest digest;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) {
    Xxh3WithAvx2(bytes.data(), bytes.size(), digest.data());
    return digest;
  }
#endif
  Xxh3(bytes.data(), bytes.size(), digest.data());
  return digest;
}

std::string DigestText(std::string_view digest) {
  return absl::BytesToHexString(absl::string_view(digest.data(), digest.size()));
}

std::vector<ChunkRange> JoinChunks(std::vector<ChunkRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ChunkRange& a, const ChunkRange& b) {
    return std::tie(a.file, a.first) < std::tie(b.file, b.first);
  });
  std::vector<ChunkRange> joined;
  for (const ChunkRange& range : ranges) {
    if (range.count <= 0) continue;
    if (joined.empty() || joined.back().file != range.file ||
        joined.back().first + joined.back().count < range.first) {
      joined.push_back(range);
      continue;
    }
    ChunkRange& last = joined.back();
    last.count = std::max(last.count, range.first + range.count - last.first);
  }
  return joined;
}

}  // namespace tutti::model
