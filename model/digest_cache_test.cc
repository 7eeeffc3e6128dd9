#include "model/digest_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files_testing.h"
#include "model/chunk_digest.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

DigestCache Example() {
  DigestCache cache;
  cache["model-1.safetensors"] = {.identity = {.bytes = 2 * kDigestChunkBytes + 1,
                                               .modified_ns = 1,
                                               .changed_ns = -2,
                                               .inode = 3,
                                               .device = 4},
                                  .digests = std::string(3 * kChunkDigestBytes, 'd')};
  cache["model-2.safetensors"] = {.identity = {}, .digests = ""};
  return cache;
}

// Bytes whose own digest is right, whatever they say.
std::string Sealed(const std::string& body) {
  const ChunkDigest digest = DigestOf(std::as_bytes(std::span(body)));
  return body + std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

TEST(DigestCache, ComesBackAsItWasWritten) {
  TempDir dir;
  const std::string path = dir.File("deep/er/cache");
  ASSERT_TRUE(WriteDigestCache(path, Example()).ok());
  const auto read = ReadDigestCache(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->at("model-1.safetensors").identity, Example().at("model-1.safetensors").identity);
  EXPECT_EQ(read->at("model-1.safetensors").digests.size(), 48u);
  // Nothing but the cache is left in its folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("deep/er")),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(DigestCache, EveryTruncationAndEveryFlippedByteIsRefused) {
  const std::string good = EncodeDigestCache(Example());
  ASSERT_TRUE(DecodeDigestCache(good).ok());
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(DecodeDigestCache(good.substr(0, n)).ok()) << n;
    std::string flipped = good;
    flipped[n] ^= 0x40;
    EXPECT_FALSE(DecodeDigestCache(flipped).ok()) << n;
  }
}

// A forger can make the last digest right; sizes and counts are checked all the same.
TEST(DigestCache, SizesAreCheckedBehindARightDigest) {
  const std::string good = EncodeDigestCache(Example());
  const std::string body = good.substr(0, good.size() - kChunkDigestBytes);
  ASSERT_TRUE(DecodeDigestCache(Sealed(body)).ok());
  for (size_t n = 16; n < body.size(); ++n) {
    // Cut between two files it is in order; the digests of the first end behind its numbers.
    const auto cut = DecodeDigestCache(Sealed(body.substr(0, n)));
    EXPECT_TRUE(!cut.ok() || cut->size() < 2) << n;
  }
  for (const char value : {'\xff', '\x7f', '\x80'}) {
    for (size_t n = 16; n < body.size(); ++n) {
      std::string changed = body;
      changed[n] = value;
      const auto decoded = DecodeDigestCache(Sealed(changed));
      EXPECT_TRUE(!decoded.ok() || decoded->size() <= 2u);
    }
  }
  EXPECT_THAT(std::string(DecodeDigestCache(Sealed(body + body.substr(16))).status().message()),
              HasSubstr("a file twice"));
}

TEST(DigestCache, OnlySmallRegularFilesAreRead) {
  TempDir dir;
  EXPECT_EQ(ReadDigestCache(dir.File("none")).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadDigestCache(dir.File("pipe")).ok());
  EXPECT_FALSE(ReadDigestCache(dir.path()).ok());
  ASSERT_TRUE(WriteDigestCache(dir.File("cache"), Example()).ok());
  std::filesystem::create_symlink(dir.File("cache"), dir.File("link"));
  EXPECT_FALSE(ReadDigestCache(dir.File("link")).ok());
  ASSERT_EQ(truncate(dir.File("cache").c_str(), kDigestCacheBytesMax + 1), 0);
  EXPECT_THAT(std::string(ReadDigestCache(dir.File("cache")).status().message()),
              HasSubstr("at most"));
}

TEST(DigestCache, APlaceThatCannotBeWrittenToIsAnError) {
  const absl::Status status = WriteDigestCache("/proc/nowhere/cache", Example());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere/cache"));
}

TEST(DigestCache, LiesBesideTheCheckpointOrInTheUsersCache) {
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  setenv("HOME", "relative", 1);
  const std::vector<std::string> paths = DigestCachePaths("/models/one");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0], "/models/one/.tutti-digests");
  EXPECT_THAT(paths[1], testing::StartsWith("/xdg/tutti/digests-"));
  EXPECT_NE(DigestCachePaths("/models/two")[1], paths[1]);
}

}  // namespace
}  // namespace tutti::model
