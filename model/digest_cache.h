// Digests that were computed before, in a file: for each file of a checkpoint its size, times,
// inode and device when it was hashed, and its digests.
//
// What the cache says is believed only for files of which all of that is still the same. The cache
// is input from outside: its size is bounded, it ends with a digest of itself, and one that is not
// wholly in order counts as none.
//
// Threads: functions without state.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"

namespace tutti::model {

struct CachedDigests {
  FileIdentity identity;
  std::string digests;  // [chunks * kChunkDigestBytes]
};
// Digests by the names of the files.
using DigestCache = std::map<std::string, CachedDigests>;

std::string EncodeDigestCache(const DigestCache& cache);
// INVALID_ARGUMENT: not wholly in order; says at which byte.
absl::StatusOr<DigestCache> DecodeDigestCache(std::string_view bytes);

// The places where the cache of a checkpoint may be, the first choice first: beside the checkpoint,
// in $XDG_CACHE_HOME/tutti, in $HOME/.cache/tutti.
std::vector<std::string> DigestCachePaths(const std::string& dir);

// NOT_FOUND: no file, or not a regular one. INVALID_ARGUMENT: too large, or as in
// DecodeDigestCache. UNAVAILABLE: the system's reason.
absl::StatusOr<DigestCache> ReadDigestCache(const std::string& path);
// Replaces the file at once and whole, and makes the folder it is in. UNAVAILABLE: the system's
// reason.
absl::Status WriteDigestCache(const std::string& path, const DigestCache& cache);

}  // namespace tutti::model
