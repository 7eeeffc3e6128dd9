#include "model/digest_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "model/checkpoint_testing.h"
#include "model/chunk_digest.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 3 * kDigestChunkBytes;

struct Result {
  std::shared_ptr<const CheckpointDigests> digests;
  int64_t hashed_bytes = 0;
};

struct DigestRunTest : testing::Test {
  DigestRunTest() {
    dir.Write("model.safetensors", FileOf({TensorOf("a", StoredType::kU8, {kBytes})}));
    options = {.threads = 2,
               .cache_paths = {"/proc/nowhere/cache", dir.File("cache")},
               .cached_bytes_min = 0,
               .settled_ns = 0,
               .retry_after = std::chrono::milliseconds(1)};
  }
  Result Run() {
    std::shared_ptr<const Checkpoint> checkpoint = *Checkpoint::Open(dir.path());
    std::promise<Result> known;
    const DigestRun run(checkpoint, options,
                        {.on_progress = [&](int percent) { last_percent = percent; },
                         .on_failure = [&](const absl::Status& why) { ADD_FAILURE() << why; },
                         .on_known =
                             [&](auto digests, int64_t hashed, double) {
                               known.set_value({std::move(digests), hashed});
                             }});
    return known.get_future().get();
  }
  int64_t FileBytes() const {
    return static_cast<int64_t>(std::filesystem::file_size(dir.File("model.safetensors")));
  }

  TempDir dir;
  DigestOptions options;
  std::atomic<int> last_percent{-1};
};

TEST_F(DigestRunTest, HashesEveryChunkAndThenNone) {
  const Result first = Run();
  EXPECT_EQ(first.hashed_bytes, FileBytes());
  EXPECT_EQ(last_percent, 100);
  const std::string file = ReadWholeFile(dir.File("model.safetensors"));
  const ChunkDigest digest = DigestOf(std::as_bytes(std::span(file)).subspan(3 << 20));
  EXPECT_EQ(first.digests->Of(0, 3),
            std::string_view(reinterpret_cast<const char*>(digest.data()), 16));
  const Result second = Run();
  EXPECT_EQ(second.hashed_bytes, 0);
  EXPECT_EQ(second.digests->Of(0, 0), first.digests->Of(0, 0));
}

TEST_F(DigestRunTest, ACacheInDoubtIsNotBelieved) {
  const Result first = Run();
  const std::string cache = ReadWholeFile(options.cache_paths.back());
  // Damaged.
  std::string damaged = cache;
  damaged[damaged.size() / 2] ^= 1;
  dir.Write("cache", damaged);
  EXPECT_EQ(Run().hashed_bytes, FileBytes());
  EXPECT_EQ(ReadWholeFile(dir.File("cache")), cache) << "and it is mended";
  // Digests of a file of equal size that was replaced.
  dir.Write("other", ReadWholeFile(dir.File("model.safetensors")));
  std::filesystem::rename(dir.File("other"), dir.File("model.safetensors"));
  EXPECT_EQ(Run().hashed_bytes, FileBytes());
  // Digests of one that was written to and given its old time again.
  const auto time = std::filesystem::last_write_time(dir.File("model.safetensors"));
  std::string file = ReadWholeFile(dir.File("model.safetensors"));
  file[file.size() / 2] ^= 1;
  const auto changed = [&] {
    return CheckpointFile::Open(dir.File("model.safetensors"))->identity().changed_ns;
  };
  // The file system's clock may tick slowly.
  for (const int64_t before = changed(); changed() == before;) {
    dir.Write("model.safetensors", file);
    std::filesystem::last_write_time(dir.File("model.safetensors"), time);
  }
  const Result last = Run();
  EXPECT_EQ(last.hashed_bytes, FileBytes());
  EXPECT_NE(last.digests->Of(0, 1), first.digests->Of(0, 1));
}

TEST_F(DigestRunTest, SmallAndYoungFilesLeaveNoCache) {
  options.settled_ns = int64_t{3600} * 1'000'000'000;
  Run();
  EXPECT_FALSE(std::filesystem::exists(dir.File("cache")));
  options.settled_ns = 0;
  options.cached_bytes_min = kBytes * 2;
  Run();
  EXPECT_FALSE(std::filesystem::exists(dir.File("cache")));
}

TEST_F(DigestRunTest, AFileThatShrankIsNamedUntilItIsBack) {
  std::shared_ptr<const Checkpoint> checkpoint = *Checkpoint::Open(dir.path());
  std::filesystem::rename(dir.File("model.safetensors"), dir.File("away"));
  dir.Write("model.safetensors", "short");
  std::promise<std::string> failure;
  std::promise<void> known;
  std::atomic<int> failures{0};
  const DigestRun run(checkpoint, options,
                      {.on_progress = [](int) {},
                       .on_failure =
                           [&](const absl::Status& why) {
                             if (failures++ == 0) failure.set_value(std::string(why.message()));
                           },
                       .on_known = [&](auto, int64_t, double) { known.set_value(); }});
  EXPECT_THAT(failure.get_future().get(), HasSubstr("model.safetensors: changed since"));
  std::filesystem::rename(dir.File("away"), dir.File("model.safetensors"));
  known.get_future().get();
}

TEST_F(DigestRunTest, EndsEarly) {
  std::shared_ptr<const Checkpoint> checkpoint = *Checkpoint::Open(dir.path());
  std::filesystem::remove(dir.File("model.safetensors"));
  options.retry_after = std::chrono::hours(1);
  std::promise<void> failed;
  const DigestRun run(checkpoint, options,
                      {.on_progress = [](int) {},
                       .on_failure = [&](const absl::Status&) { failed.set_value(); },
                       .on_known = [](auto, int64_t, double) { ADD_FAILURE(); }});
  failed.get_future().get();
}

}  // namespace
}  // namespace tutti::model
