#include "worker/fetch/checkpoint_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files_testing.h"
#include "model/limits.h"

namespace tutti::worker {
namespace {

using model::kDigestChunkBytes;
using testing::HasSubstr;

constexpr char kPrint[] = "0123456789abcdef0123456789abcdef";
constexpr int64_t kBytes = 4 * kDigestChunkBytes + 100;

v1::CheckpointFiles About() {
  v1::CheckpointFiles about;
  about.set_model_fingerprint(kPrint);
  v1::CheckpointFile* file = about.add_files();
  file->set_name("config.json");
  file->set_bytes(10);
  file = about.add_files();
  file->set_name("model.safetensors");
  file->set_bytes(kBytes);
  file->set_header_bytes(100);
  return about;
}

std::vector<std::byte> BytesOf(int64_t size, int seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + seed);
  return bytes;
}

std::string DigestOf(const std::vector<std::byte>& bytes) {
  const model::ChunkDigest digest = model::DigestOf(bytes);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

struct CheckpointCacheTest : testing::Test {
  TempDir dir;
  std::unique_ptr<CheckpointCache> Open() {
    auto cache = CheckpointCache::Open(dir.File("cache"), About());
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
  static bool Has(CheckpointCache* cache, int64_t chunk, const std::string& digest, bool* damaged) {
    const auto has = cache->Has(1, chunk, digest, damaged);
    EXPECT_TRUE(has.ok()) << has.status();
    return has.ok() && *has;
  }
};

TEST_F(CheckpointCacheTest, KeepsChunksFromOneProcessToTheNext) {
  const auto third = BytesOf(kDigestChunkBytes, 3), last = BytesOf(100, 4);
  bool damaged = true;
  {
    const auto cache = Open();
    EXPECT_FALSE(Has(cache.get(), 2, DigestOf(third), &damaged));
    EXPECT_FALSE(damaged);
    EXPECT_TRUE(cache->Put(1, 2, third).ok());
    EXPECT_TRUE(cache->Put(1, 4, last).ok());
  }
  const auto cache = Open();
  EXPECT_TRUE(Has(cache.get(), 2, DigestOf(third), &damaged));
  EXPECT_TRUE(Has(cache.get(), 4, DigestOf(last), &damaged));
  EXPECT_FALSE(Has(cache.get(), 1, DigestOf(third), &damaged));
  EXPECT_FALSE(damaged);
  // A file of the right length, of which only what was written takes room.
  struct stat info;
  ASSERT_EQ(stat((cache->folder() + "/model.safetensors").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, kBytes);
  EXPECT_LT(info.st_blocks * 512, 2 * kDigestChunkBytes);
}

TEST_F(CheckpointCacheTest, BytesThatChangedAreNotThere) {
  const auto bytes = BytesOf(kDigestChunkBytes, 3);
  const auto cache = Open();
  EXPECT_TRUE(cache->Put(1, 2, bytes).ok());
  {
    std::fstream file(cache->folder() + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * kDigestChunkBytes + 77);
    file.put('\x5a');
  }
  bool damaged = false;
  EXPECT_FALSE(Has(cache.get(), 2, DigestOf(bytes), &damaged));
  EXPECT_TRUE(damaged);
  EXPECT_TRUE(cache->Put(1, 2, bytes).ok());
  EXPECT_TRUE(Has(cache.get(), 2, DigestOf(bytes), &damaged));
}

TEST_F(CheckpointCacheTest, AFileThatWasCutIsMadeWholeAgain) {
  const auto bytes = BytesOf(kDigestChunkBytes, 3);
  const std::string path = Open()->folder() + "/model.safetensors";
  dir.Write("cache/" + std::string(kPrint) + "/model.safetensors", "short");
  const auto cache = Open();
  bool damaged = false;
  EXPECT_FALSE(Has(cache.get(), 3, DigestOf(bytes), &damaged));
  EXPECT_TRUE(cache->Put(1, 3, bytes).ok());
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), kBytes);
}

TEST_F(CheckpointCacheTest, AFolderIsOneWorkers) {
  const auto first = Open();
  const auto second = CheckpointCache::Open(dir.File("cache"), About());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another worker's"));
}

TEST_F(CheckpointCacheTest, AFullDiskIsNamedBeforehand) {
  const absl::Status room = Open()->CheckRoom(int64_t{1} << 62);
  EXPECT_EQ(room.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(room.message()), HasSubstr("has room for"));
  EXPECT_TRUE(Open()->CheckRoom(1).ok());
}

TEST_F(CheckpointCacheTest, HostileDescriptionsAreRefusedAndMakeNothing) {
  using Change = void (*)(v1::CheckpointFiles*);
  const Change changes[] = {
      [](auto* about) { about->set_model_fingerprint("../../etc"); },
      [](auto* about) { about->set_model_fingerprint(""); },
      [](auto* about) { about->mutable_files(1)->set_name("../model.safetensors"); },
      [](auto* about) { about->mutable_files(1)->set_name(".lock"); },
      [](auto* about) { about->mutable_files(1)->set_name("run.sh"); },
      [](auto* about) { about->mutable_files(1)->set_name("config.json"); },
      [](auto* about) { about->mutable_files(1)->set_bytes(-1); },
      [](auto* about) { about->mutable_files(1)->set_bytes(INT64_MAX); },
      [](auto* about) { about->mutable_files(1)->set_header_bytes(0); },
      [](auto* about) { about->mutable_files(1)->set_header_bytes(kBytes + 1); },
      [](auto* about) { about->mutable_files(0)->set_bytes(int64_t{1} << 40); },
      [](auto* about) { about->mutable_files(0)->set_name("other.safetensors"); },
      [](auto* about) {
        for (int i = 0; i < 5000; ++i) *about->add_files() = about->files(1);
      },
  };
  for (const Change change : changes) {
    v1::CheckpointFiles about = About();
    change(&about);
    const auto cache = CheckpointCache::Open(dir.File("cache"), about);
    EXPECT_EQ(cache.status().code(), absl::StatusCode::kInvalidArgument)
        << about.Utf8DebugString().substr(0, 300);
  }
  EXPECT_FALSE(std::filesystem::exists(dir.File("cache")));
}

}  // namespace
}  // namespace tutti::worker
