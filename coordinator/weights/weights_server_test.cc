#include "coordinator/weights/weights_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <thread>

#include "coordinator/weights/limits.h"
#include "coordinator/weights/weights_testing.h"
#include "model/limits.h"

namespace tutti::coordinator {
namespace {

using model::kDigestChunkBytes;
using testing::HasSubstr;

constexpr char kFile[] = "model.safetensors";

struct WeightsServerTest : testing::Test {
  WeightsServerTest() : files(OpenWeightsFiles(dir, kFile, kBytes)) {}
  static v1::Frame Chunk(int64_t chunk, const std::string& file = kFile) {
    v1::Frame frame;
    frame.mutable_file_chunk_wanted()->set_file(file);
    frame.mutable_file_chunk_wanted()->set_chunk(chunk);
    return frame;
  }
  static constexpr int64_t kBytes = 20 * kDigestChunkBytes;

  TempDir dir;
  const std::shared_ptr<const WeightsFiles> files;
  const SystemClock clock;
  const std::shared_ptr<KeepingLink> link = std::make_shared<KeepingLink>();
  const LinkKey key{7};
};

TEST_F(WeightsServerTest, TellsFilesDigestsAndChunksInTheOrderOfTheQuestions) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  v1::Frame wanted;
  wanted.mutable_files_wanted();
  server.Ask(key, link, false, wanted);
  v1::Frame digests;
  digests.mutable_digests_wanted()->set_file(kFile);
  digests.mutable_digests_wanted()->set_first_chunk(2);
  digests.mutable_digests_wanted()->set_chunks(3);
  server.Ask(key, link, false, digests);
  server.Ask(key, link, true, Chunk(2));
  server.Ask(key, link, true, Chunk(0, "config.json"));

  const v1::CheckpointFiles about = link->Wait(0).checkpoint_files();
  EXPECT_EQ(about.model_fingerprint(), "print");
  ASSERT_EQ(about.files_size(), 2);
  EXPECT_EQ(about.files(0).name(), "config.json");
  EXPECT_EQ(about.files(0).header_bytes(), 0);
  EXPECT_EQ(about.files(1).name(), kFile);
  EXPECT_EQ(about.files(1).bytes() - about.files(1).header_bytes(), kBytes);
  const std::string told = link->Wait(1).chunk_digests().digests();
  ASSERT_EQ(told.size(), 3 * model::kChunkDigestBytes);
  std::string bytes;
  EXPECT_EQ(link->Wait(2, &bytes).file_chunk().chunk(), 2);
  EXPECT_EQ(bytes, ReadWholeFile(dir.File(kFile)).substr(2 * kDigestChunkBytes, kDigestChunkBytes));
  const model::ChunkDigest digest = model::DigestOf(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(told.substr(0, digest.size()),
            std::string(reinterpret_cast<const char*>(digest.data()), digest.size()));
  std::string config;
  link->Wait(3, &config);
  EXPECT_EQ(config, "{\"a\": 1}");
}

TEST_F(WeightsServerTest, WeightsAreForThoseWhoHaveJoined) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  server.Ask(key, link, false, Chunk(0));  // where the header is
  link->Wait(0);
  server.Ask(key, link, false, Chunk(1));
  EXPECT_EQ(link->WaitClosed().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(WeightsServerTest, BeforeTheCheckpointIsDigestedWorkersComeAgain) {
  WeightsServer server(&clock, 0);
  server.Ask(key, link, true, Chunk(1));
  EXPECT_TRUE(absl::IsUnavailable(link->WaitClosed()));
}

TEST_F(WeightsServerTest, WhatIsNotThereEndsTheLink) {
  for (const v1::Frame& question : {Chunk(0, "../secret"), Chunk(0, "tokenizer.json"), Chunk(-1),
                                    Chunk(21), Chunk(INT64_MAX), v1::Frame()}) {
    WeightsServer server(&clock, 0);
    server.SetFiles(files);
    const auto other = std::make_shared<KeepingLink>();
    server.Ask(key, other, true, question);
    EXPECT_EQ(other->WaitClosed().code(), absl::StatusCode::kInvalidArgument)
        << question.ShortDebugString();
    EXPECT_EQ(other->sent(), 0u);
  }
}

TEST_F(WeightsServerTest, ALinkThatIsNotReadHoldsTwoChunksAndNobodyUp) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  for (int i = 0; i < 6; ++i) server.Ask(key, link, true, Chunk(1 + i));
  link->Wait(kWeightsUnsentMax - 1);
  const auto other = std::make_shared<KeepingLink>();
  server.Ask(LinkKey(8), other, true, Chunk(1));
  server.Ask(LinkKey(8), other, true, Chunk(2));
  other->Wait(1);
  EXPECT_EQ(link->sent(), static_cast<size_t>(kWeightsUnsentMax));
  while (link->sent() < 6) link->LetGo();
  EXPECT_EQ(link->Wait(5).file_chunk().chunk(), 6);
}

// Digests of large files are as large as chunks, and any peer may ask for them.
TEST_F(WeightsServerTest, ALinkThatIsNotReadHoldsTwoAnswersOfAnyKind) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  link->TakeNothing();
  v1::Frame digests;
  digests.mutable_digests_wanted()->set_file(kFile);
  digests.mutable_digests_wanted()->set_first_chunk(2);
  digests.mutable_digests_wanted()->set_chunks(3);
  for (int i = 0; i < 6; ++i) server.Ask(key, link, false, digests);
  link->Wait(kWeightsUnsentMax - 1);
  const auto other = std::make_shared<KeepingLink>();
  for (int i = 0; i < 4; ++i) server.Ask(LinkKey(8), other, false, digests);
  other->Wait(3);
  EXPECT_EQ(link->sent(), static_cast<size_t>(kWeightsUnsentMax));
}

// Where a chunk has the header's end and weights, whoever has not joined gets zeros for these, with
// the digest of such a chunk.
TEST_F(WeightsServerTest, NoByteBehindTheHeaderGoesToThoseWhoHaveNotJoined) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  v1::Frame wanted;
  wanted.mutable_digests_wanted()->set_file(kFile);
  wanted.mutable_digests_wanted()->set_chunks(2);
  server.Ask(key, link, false, wanted);
  server.Ask(key, link, false, Chunk(0));
  server.Ask(key, link, true, wanted);
  server.Ask(key, link, true, Chunk(0));
  const std::string there = ReadWholeFile(dir.File(kFile)).substr(0, kDigestChunkBytes);
  const auto header = static_cast<size_t>(model::kSafetensorsPrefixBytes +
                                          *model::SafetensorsHeaderBytes(there, kBytes + 1000));
  ASSERT_NE(there.substr(header).find_first_not_of('\0'), std::string::npos);
  const auto digest_of = [](const std::string& bytes) {
    const model::ChunkDigest digest = model::DigestOf(std::as_bytes(std::span(bytes)));
    return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  const std::string outside = link->Wait(0).chunk_digests().digests();
  std::string bytes;
  link->Wait(1, &bytes);
  EXPECT_TRUE(bytes == there.substr(0, header) + std::string(there.size() - header, '\0'));
  EXPECT_EQ(outside.substr(0, model::kChunkDigestBytes), digest_of(bytes));
  const std::string inside = link->Wait(2).chunk_digests().digests();
  std::string whole;
  link->Wait(3, &whole);
  EXPECT_TRUE(whole == there);
  EXPECT_EQ(inside.substr(0, model::kChunkDigestBytes), digest_of(there));
  EXPECT_EQ(inside.substr(model::kChunkDigestBytes), outside.substr(model::kChunkDigestBytes));
}

TEST_F(WeightsServerTest, WhatCannotBeOfferedIsToldAtOnce) {
  WeightsServer server(&clock, 0);
  EXPECT_TRUE(server.CheckOffered().ok());
  server.SetNone(absl::FailedPreconditionError("a file of the checkpoint has no such name"));
  EXPECT_FALSE(server.CheckOffered().ok());
  server.Ask(key, link, true, Chunk(1));
  const absl::Status why = link->WaitClosed();
  EXPECT_EQ(why.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(why.message()), HasSubstr("no such name"));
}

// At a byte a second the second chunk is due in twelve days, and all links wait.
TEST_F(WeightsServerTest, WhoWaitsForItsTurnIsToldSo) {
  SteppedClock stepped;
  WeightsServer server(&stepped, 1);
  server.SetFiles(files);
  const auto other = std::make_shared<KeepingLink>(), older = std::make_shared<KeepingLink>();
  server.TakesBeats(key);
  server.TakesBeats(LinkKey(8));
  server.Ask(key, link, true, Chunk(1));
  link->Wait(0);
  server.Ask(key, link, true, Chunk(2));
  server.Ask(key, link, true, Chunk(3));
  server.Ask(LinkKey(8), other, true, Chunk(4));
  server.Ask(LinkKey(6), older, true, Chunk(5));  // comes before the others
  // The server looks at the clock by itself, now and then.
  for (int i = 0; i < 1000 && (link->sent() < 4 || other->sent() < 3); ++i) {
    stepped.Advance(kWeightsPendingInterval);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GE(link->sent(), 4u);
  ASSERT_GE(other->sent(), 3u);
  EXPECT_TRUE(link->Wait(1).has_beat());
  EXPECT_TRUE(other->Wait(0).has_beat());
  EXPECT_EQ(older->sent(), 0u) << "it would take a beat for the chunk";
}

TEST_F(WeightsServerTest, TooManyQuestionsEndTheLink) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  for (size_t i = 0; i <= kWeightsQuestionsMax + kWeightsUnsentMax; ++i) {
    server.Ask(key, link, true, Chunk(1));
  }
  EXPECT_EQ(link->WaitClosed().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(WeightsServerTest, KeepsToItsRate) {
  WeightsServer server(&clock, 20 * kDigestChunkBytes);
  server.SetFiles(files);
  const Instant begin = clock.Now();
  for (int i = 0; i < 5; ++i) {
    server.Ask(key, link, true, Chunk(1));
    link->Wait(static_cast<size_t>(i));
    link->LetGo();
  }
  EXPECT_GE(clock.Now() - begin, std::chrono::milliseconds(200));  // the first is not held up
  // Counted once it has been sent.
  for (int i = 0; i < 500 && server.sent_bytes() < 5u * kDigestChunkBytes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(server.sent_bytes(), 5u * kDigestChunkBytes);
}

TEST_F(WeightsServerTest, ItsOwnDamagedDiskIsNamed) {
  WeightsServer server(&clock, 0);
  server.SetFiles(files);
  // A change as a disk does it: the file's times stay.
  const auto time = std::filesystem::last_write_time(dir.File(kFile));
  {
    std::fstream file(dir.File(kFile), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 * kDigestChunkBytes + 5);
    file.put('\xff');
  }
  std::filesystem::last_write_time(dir.File(kFile), time);
  server.Ask(key, link, true, Chunk(3));
  const absl::Status why = link->WaitClosed();
  EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(why.message()), HasSubstr("model.safetensors"));
}

TEST_F(WeightsServerTest, ForgetsLinksThatHaveClosed) {
  auto server = std::make_unique<WeightsServer>(&clock, 0);
  server->SetFiles(files);
  for (int i = 0; i < 8; ++i) server->Ask(key, link, true, Chunk(1 + i));
  server->Forget(key);
  server.reset();  // while payloads are held
  link->LetGo();
}

}  // namespace
}  // namespace tutti::coordinator
