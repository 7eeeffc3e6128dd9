#include "worker/fetch/shard_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "base/mutex.h"
#include "model/checkpoint_testing.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"
#include "model/shard_chunks.h"
#include "transport/inproc_link.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using model::kDigestChunkBytes;
using testing::HasSubstr;

constexpr char kWeights[] = "model.safetensors";

// Its layers are a few chunks long each.
model::ModelConfig Config() {
  model::ModelConfig config = model::TinyConfig();
  config.hidden_size = 512;
  config.intermediate_size = 2048;
  config.vocab_size = 4096;
  return config;
}

// A coordinator as far as fetching goes, which can be told to go wrong.
class Server {
 public:
  explicit Server(const std::string& dir) {
    for (const char* name : {"config.json", kWeights})
      files_[name] = ReadWholeFile(dir + "/" + name);
    fingerprint_ = *model::ModelFingerprint(dir);
  }

  transport::AcceptCallback acceptor() {
    return [this](std::unique_ptr<transport::Link> link) {
      ++links;
      return std::make_unique<Handler>(this, std::move(link));
    };
  }

  std::map<int64_t, int> chunks() {  // of weights, how often each was sent
    const MutexLock lock(&mutex_);
    return chunks_;
  }
  void ForgetChunks() {
    const MutexLock lock(&mutex_);
    chunks_.clear();
  }

  std::atomic<int> links{0};
  std::atomic<int> break_after{-1};  // chunks, then once the link closes
  std::atomic<int> flips{0};         // chunks that come with a byte changed
  std::atomic<bool> hostile{false};  // answers with another chunk than that asked for

 private:
  class Handler : public transport::LinkHandler {
   public:
    Handler(Server* server, std::unique_ptr<transport::Link> link)
        : server_(server), link_(std::move(link)) {}
    void OnFrame(v1::Frame frame, transport::Payload) override {
      if (link_ != nullptr) server_->Answer(frame, &link_);
    }
    void OnClosed(absl::Status) override {}

   private:
    Server* const server_;
    std::unique_ptr<transport::Link> link_;
  };

  void Answer(const v1::Frame& question, std::unique_ptr<transport::Link>* link) {
    v1::Frame frame;
    transport::Payload payload;
    if (question.has_hello()) {
      EXPECT_EQ(question.hello().purpose(), v1::LINK_PURPOSE_WEIGHTS);
      frame.mutable_welcome();
    } else if (question.has_files_wanted()) {
      TellFiles(frame.mutable_checkpoint_files());
    } else if (question.has_digests_wanted()) {
      TellDigests(question.digests_wanted(), frame.mutable_chunk_digests());
    } else if (!TellChunk(question.file_chunk_wanted(), &frame, &payload)) {
      (*link)->Close(absl::UnavailableError("the network went"));
      return link->reset();
    }
    EXPECT_TRUE((*link)->Send(std::move(frame), std::move(payload)).ok());
  }

  void TellFiles(v1::CheckpointFiles* about) {
    about->set_model_fingerprint(fingerprint_);
    for (const auto& [name, bytes] : files_) {
      v1::CheckpointFile* const file = about->add_files();
      file->set_name(name);
      file->set_bytes(static_cast<int64_t>(bytes.size()));
      if (name == kWeights) {
        file->set_header_bytes(
            8 + *model::SafetensorsHeaderBytes(bytes, static_cast<int64_t>(bytes.size())));
      }
    }
  }

  std::string ChunkOf(const std::string& file, int64_t chunk) {
    return files_.at(file).substr(static_cast<size_t>(chunk * kDigestChunkBytes),
                                  kDigestChunkBytes);
  }

  void TellDigests(const v1::DigestsWanted& wanted, v1::ChunkDigests* to) {
    to->set_file(wanted.file());
    to->set_first_chunk(wanted.first_chunk());
    for (int64_t i = 0; i < wanted.chunks(); ++i) {
      const std::string bytes = ChunkOf(wanted.file(), wanted.first_chunk() + i);
      const model::ChunkDigest digest = model::DigestOf(std::as_bytes(std::span(bytes)));
      to->mutable_digests()->append(reinterpret_cast<const char*>(digest.data()), digest.size());
    }
  }

  // False: the link breaks.
  bool TellChunk(const v1::FileChunkWanted& wanted, v1::Frame* frame, transport::Payload* payload) {
    auto bytes = std::make_shared<std::string>(ChunkOf(wanted.file(), wanted.chunk()));
    if (wanted.file() == kWeights) {
      if (break_after == 0) {
        break_after = -1;
        return false;
      }
      if (break_after > 0) --break_after;
      const MutexLock lock(&mutex_);
      ++chunks_[wanted.chunk()];
    }
    if (flips > 0 && wanted.file() == kWeights) {
      --flips;
      (*bytes)[bytes->size() / 2] ^= 1;
    }
    frame->mutable_file_chunk()->set_file(wanted.file());
    frame->mutable_file_chunk()->set_chunk(wanted.chunk() + (hostile ? 1 : 0));
    payload->chunks = {std::as_bytes(std::span(*bytes))};
    payload->owner = std::move(bytes);
    return true;
  }

  std::map<std::string, std::string> files_;
  std::string fingerprint_;
  Mutex mutex_;
  std::map<int64_t, int> chunks_ ABSL_GUARDED_BY(mutex_);
};

struct ShardFetchTest : testing::Test {
  ShardFetchTest() {
    dir.Write("config.json", model::ConfigText(Config()));
    dir.Write(kWeights, model::FileOf(model::TensorsOf(Config())));
    server.emplace(dir.path());
    EXPECT_TRUE(network.Listen("coordinator", server->acceptor()).ok());
    shard.set_num_ranks(1);
    shard.set_first_layer(1);
    shard.set_num_layers(1);
  }

  absl::StatusOr<std::unique_ptr<ShardFetch>> Open() {
    return ShardFetch::Open(cache.path(),
                            {.dialer = dialer.get(),
                             .addresses = {"nobody", "coordinator"},
                             .hello = {},
                             .clock = &clock},
                            [] { return absl::OkStatus(); });
  }
  absl::Status Fetch(ShardFetch* fetch) {
    last = {};
    return fetch->Fetch(
        shard, [this](const FetchProgress& told) { last = told; }, [this] { return keep_on; });
  }
  // The chunks of the shard and of the header.
  std::map<int64_t, int> Needed() const {
    const auto checkpoint = *model::Checkpoint::Open(dir.path());
    std::map<int64_t, int> needed = {{0, 1}};
    for (const model::ChunkRange& range : model::ShardChunks(
             *checkpoint, Config(), {.first_layer = shard.first_layer(), .num_layers = 1}, 1, 0)) {
      for (int64_t i = 0; i < range.count; ++i) needed[range.first + i] = 1;
    }
    return needed;
  }
  // Whether what the shard needs is in the fetch's folder, as it is in the original.
  void ExpectThere(const ShardFetch& fetch) const {
    const std::string here = ReadWholeFile(fetch.folder() + "/" + kWeights);
    const std::string there = ReadWholeFile(dir.File(kWeights));
    ASSERT_EQ(here.size(), there.size());
    for (const auto& [chunk, times] : Needed()) {
      const auto at = static_cast<size_t>(chunk * kDigestChunkBytes);
      EXPECT_TRUE(here.substr(at, kDigestChunkBytes) == there.substr(at, kDigestChunkBytes))
          << chunk;
    }
  }

  TempDir dir, cache;
  SystemClock clock;
  std::optional<Server> server;
  transport::InprocNetwork network;
  std::unique_ptr<transport::Dialer> dialer = network.MakeDialer();
  v1::AssignShard shard;
  FetchProgress last;
  absl::Status keep_on;
};

TEST_F(ShardFetchTest, FetchesTheShardsChunksAndNoOthersOnce) {
  const auto fetch = Open();
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  EXPECT_EQ((*fetch)->config().hidden_size, 512);
  EXPECT_EQ((*fetch)->fingerprint(), *model::ModelFingerprint(dir.path()));
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_EQ(server->chunks(), Needed());
  EXPECT_LT(Needed().size(), 12u);
  ExpectThere(**fetch);
  EXPECT_EQ(last.fetched_bytes, last.all_bytes);
  EXPECT_GT(last.all_bytes, 0);

  // Another shard of which a part is there, then both again.
  server->ForgetChunks();
  shard.set_num_layers(2);
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  for (const auto& [chunk, times] : server->chunks()) EXPECT_FALSE(Needed().contains(chunk));
  EXPECT_FALSE(server->chunks().empty());
  server->ForgetChunks();
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_TRUE(server->chunks().empty());
}

TEST_F(ShardFetchTest, ASecondProcessFetchesNothing) {
  {
    const auto fetch = Open();
    ASSERT_TRUE(Fetch(fetch->get()).ok());
  }
  server->ForgetChunks();
  const auto fetch = Open();
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_TRUE(server->chunks().empty());
  EXPECT_EQ((*fetch)->fetched_bytes(), 0u);
}

TEST_F(ShardFetchTest, WhatIsDamagedInTheCacheIsFetchedAgain) {
  auto fetch = Open();
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  const int64_t chunk = Needed().rbegin()->first;
  {
    std::fstream file((*fetch)->folder() + "/" + kWeights,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(chunk * kDigestChunkBytes + 5);
    file.put('\x5a');
  }
  server->ForgetChunks();
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_EQ(server->chunks(), (std::map<int64_t, int>{{chunk, 1}}));
  ExpectThere(**fetch);
}

TEST_F(ShardFetchTest, GoesOnAfterABrokenLink) {
  const auto fetch = Open();
  server->break_after = 3;
  const int links = server->links;
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_EQ(server->links, links + 2);
  ExpectThere(**fetch);
  // A chunk that had been answered was not asked again.
  for (const auto& [chunk, times] : server->chunks()) EXPECT_EQ(times, 1) << chunk;
}

TEST_F(ShardFetchTest, AChunkThatChangedOnTheWayIsAskedForAgain) {
  const auto fetch = Open();
  server->flips = 2;
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  EXPECT_EQ((*fetch)->wrong_chunks(), 2u);
  ExpectThere(**fetch);
}

TEST_F(ShardFetchTest, AWayThatChangesBytesIsNamed) {
  const auto fetch = Open();
  server->flips = 1000;
  const absl::Status why = Fetch(fetch->get());
  EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(why.message()), HasSubstr("model.safetensors, bytes 0 to 1048575"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("coordinator"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("changed on the way, 3 times"));
}

TEST_F(ShardFetchTest, AnAnswerToAnotherQuestionEndsIt) {
  const auto fetch = Open();
  server->hostile = true;
  EXPECT_EQ(Fetch(fetch->get()).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShardFetchTest, StopsWhenToldAndKeepsWhatHasCome) {
  const auto fetch = Open();
  int looks = 0;
  const absl::Status stopped = (*fetch)->Fetch(shard, nullptr, [&] {
    return server->chunks().size() < 3 || ++looks < 3 ? absl::OkStatus()
                                                      : absl::AbortedError("over");
  });
  EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
  ASSERT_TRUE(Fetch(fetch->get()).ok());
  ExpectThere(**fetch);
  EXPECT_LE((*fetch)->fetched_bytes(),
            (Needed().size() + 1) * static_cast<uint64_t>(kDigestChunkBytes));
}

TEST_F(ShardFetchTest, AShardThatTheModelDoesNotHaveIsRefused) {
  const auto fetch = Open();
  shard.set_num_layers(9);
  EXPECT_EQ(Fetch(fetch->get()).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShardFetchTest, TheWaitForACoordinatorEndsWhenTold) {
  network.StopListening("coordinator");
  int looks = 0;
  const auto opened = ShardFetch::Open(
      cache.path(),
      {.dialer = dialer.get(), .addresses = {"coordinator"}, .hello = {}, .clock = &clock},
      [&] { return ++looks < 5 ? absl::OkStatus() : absl::CancelledError("told to stop"); });
  EXPECT_TRUE(absl::IsCancelled(opened.status()));
}

}  // namespace
}  // namespace tutti::worker
