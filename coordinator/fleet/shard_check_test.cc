// Pipelines serve only what has been compared with the coordinator's checkpoint.
#include "coordinator/fleet/shard_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"
#include "model/checkpoint_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// A tiny model's checkpoint, and workers that read it, or another.
class ShardCheckTest : public EngineTest {
 protected:
  ShardCheckTest() {
    options_ = TinyEngineOptions(2);
    options_.compare_checkpoint = true;
    options_.model.dtype = DType::kBF16;
    dir_.Write("model.safetensors", model::FileOf(model::TensorsOf(options_.model)));
    std::shared_ptr<const model::Checkpoint> checkpoint = *model::Checkpoint::Open(dir_.path());
    const std::string file = ReadWholeFile(dir_.File("model.safetensors"));
    for (size_t at = 0; at < file.size(); at += model::kDigestChunkBytes) {
      const model::ChunkDigest digest = model::DigestOf(
          std::as_bytes(std::span(file))
              .subspan(at, std::min<size_t>(model::kDigestChunkBytes, file.size() - at)));
      all_.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    }
    digests_ = std::make_shared<model::CheckpointDigests>(checkpoint, std::vector{all_});
  }
  void Begin(uint64_t workers) {
    Start(options_);
    for (uint64_t link = 1; link <= workers; ++link) Join(link, absl::StrCat("w", link));
    Turn();
  }
  void Know() {
    Give(CheckpointDigested{digests_, ""});
    Turn();
  }
  // shard_ready that reports the digests of all of the file.
  void Loaded(uint64_t link, const std::string& digests) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    v1::ChunkDigests* const read = frame.mutable_shard_ready()->add_read();
    read->set_file("model.safetensors");
    read->set_digests(digests);
    Send(link, std::move(frame));
    Turn();
  }
  std::string Damaged() const {
    std::string damaged = all_;
    damaged[0] ^= 1;
    return damaged;
  }

  TempDir dir_;
  EngineOptions options_;
  std::string all_;
  std::shared_ptr<const model::CheckpointDigests> digests_;
};

TEST_F(ShardCheckTest, NothingServesBeforeTheDigestsAreKnown) {
  Begin(2);
  Give(CheckpointDigested{nullptr, "comparing the checkpoint: 43 %"});
  Loaded(1, all_);
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("loading on w2"));
  Loaded(2, all_);
  EXPECT_FALSE(Status().serving());
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("comparing the checkpoint: 43 %"));
  // However long it takes, the workers are not late, and nobody wakes up for nothing.
  now_ += options_.load_timeout + seconds(1);
  Beat(1, 1);
  Beat(2, 1);
  Turn();
  EXPECT_EQ(epoch(), 1u);
  EXPECT_GT(engine_->next_deadline(), now_);
  Know();
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
  EXPECT_EQ(ActionsOf<ServingChanged>().back().serving, true);
}

TEST_F(ShardCheckTest, ShardsThatLoadLaterAreComparedAtOnce) {
  Begin(2);
  Know();
  Loaded(1, all_);
  Loaded(2, all_);
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
}

// Bytes that were read before the digests were known, and after.
TEST_F(ShardCheckTest, AWorkerThatReadOtherBytesIsRefusedAndASpareTakesItsPlace) {
  for (const bool early : {true, false}) {
    SCOPED_TRACE(early);
    actions_.clear();
    Begin(3);
    if (!early) Know();
    Loaded(1, all_);
    Loaded(2, Damaged());
    if (early) Know();
    const auto closed = ActionsOf<CloseWorker>();
    ASSERT_EQ(closed.size(), 1u);
    EXPECT_EQ(closed[0].link, LinkKey(2));
    EXPECT_THAT(std::string(closed[0].reason.message()),
                HasSubstr("model.safetensors, bytes 0 to"));
    EXPECT_TRUE(ActionsOf<SendToWorker>().size() >= 2);
    bool released = false;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      released |= send.link == LinkKey(2) && send.frame.has_release();
    }
    EXPECT_TRUE(released) << "it must read again when it comes back";
    EXPECT_THAT(Status().why_not_serving(),
                HasSubstr("worker w2 (stage 1) was lost: it read other"));
    EXPECT_EQ(Status().pipelines(0).stages(1).worker().worker_id(), "w3");
    Loaded(1, all_);
    Loaded(3, all_);
    EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
  }
}

TEST_F(ShardCheckTest, ItComesBackAfterAWhileThatGrows) {
  Begin(2);
  Know();
  Duration before = Duration::zero();
  for (uint64_t link = 2; link < 8; ++link) {
    SCOPED_TRACE(link);
    Turn();
    Loaded(link, Damaged());
    actions_.clear();
    Join(link + 100, "w2");
    ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u) << "at once";
    EXPECT_THAT(std::string(ActionsOf<CloseWorker>()[0].reason.message()),
                HasSubstr("it may join again in"));
    Duration waited = Duration::zero();
    for (; waited < seconds(200); waited += seconds(1)) {
      now_ += seconds(1);
      Beat(1, link);
      Turn();
      actions_.clear();
      Join(link + 1, "w2");
      if (ActionsOf<CloseWorker>().empty()) break;
    }
    EXPECT_GE(waited, before);
    EXPECT_LE(waited, seconds(80));
    before = waited;
    now_ += seconds(1);
    Beat(1, link);
    Beat(link + 1, 0);
  }
  EXPECT_GE(before, seconds(79));
}

TEST_F(ShardCheckTest, AWorkerThatDoesNotSayWhatItReadIsRefused) {
  Begin(2);
  Know();
  Loaded(1, "");
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_THAT(std::string(ActionsOf<CloseWorker>()[0].reason.message()),
              HasSubstr("does not say what it read"));
}

// The plan is a proof: whoever holds another number of bytes than planned does not serve.
TEST_F(ShardCheckTest, AWorkerThatHoldsOtherBytesThanPlannedIsRefusedByName) {
  options_.compare_checkpoint = false;
  options_.compare_memory = true;
  const auto planned = [&](uint64_t link) {
    const v1::StageStatus stage = Status().pipelines(0).stages(static_cast<int>(link) - 1);
    v1::Frame frame;
    frame.set_epoch(epoch());
    v1::ShardReady* const ready = frame.mutable_shard_ready();
    ready->set_weight_bytes(stage.predicted().weights());
    ready->set_kv_bytes(stage.predicted().kv());
    ready->set_activation_bytes(stage.predicted().activations());
    ready->set_kept_row_bytes(stage.predicted().kept_rows());
    return frame;
  };
  const std::pair<const char*, void (*)(v1::ShardReady*)> wrongs[] = {
      {"bytes of weights where",
       [](v1::ShardReady* ready) { ready->set_weight_bytes(ready->weight_bytes() + 1); }},
      {"bytes of the KV cache where",
       [](v1::ShardReady* ready) { ready->set_kv_bytes(ready->kv_bytes() - 1); }},
      {"bytes of the work space of a step where",
       [](v1::ShardReady* ready) { ready->set_activation_bytes(ready->activation_bytes() + 1); }},
      {"bytes of the work space of a step where",
       [](v1::ShardReady* ready) { ready->set_activation_bytes(-1); }},
      {"bytes of rows for the stage after where",
       [](v1::ShardReady* ready) { ready->set_kept_row_bytes(ready->kept_row_bytes() + 1); }}};
  for (const auto& [words, change] : wrongs) {
    SCOPED_TRACE(words);
    Begin(2);
    Send(1, planned(1));
    v1::Frame wrong = planned(2);
    change(wrong.mutable_shard_ready());
    actions_.clear();
    Send(2, wrong);
    Turn();
    const auto closed = ActionsOf<CloseWorker>();
    ASSERT_EQ(closed.size(), 1u);
    EXPECT_EQ(closed[0].link, LinkKey(2));
    EXPECT_THAT(std::string(closed[0].reason.message()), HasSubstr(words));
    EXPECT_THAT(ActionsOf<Notice>()[0].text, HasSubstr("worker w2 is refused: it holds "));
    EXPECT_FALSE(Status().serving());
    actions_.clear();
    Join(3, "w2");
    ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u) << "at once";
  }
  Begin(2);
  Send(1, planned(1));
  Send(2, planned(2));
  Turn();
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
}

// A GPU's operators share memory where the plan counts each alone; rows are kept where there is
// memory for them.
TEST_F(ShardCheckTest, FewerBytesOfWorkSpaceAndKeptRowsThanPlannedServe) {
  options_.compare_checkpoint = false;
  options_.compare_memory = true;
  options_.partial_recompute = true;
  Begin(2);
  for (const uint64_t link : {1, 2}) {
    const v1::StageStatus stage = Status().pipelines(0).stages(static_cast<int>(link) - 1);
    EXPECT_EQ(stage.predicted().kept_rows() > 0, link == 1);
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_shard_ready()->set_weight_bytes(stage.predicted().weights());
    frame.mutable_shard_ready()->set_kv_bytes(stage.predicted().kv());
    frame.mutable_shard_ready()->set_activation_bytes(stage.predicted().activations() - 1);
    Send(link, frame);
  }
  Turn();
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
}

// It is for tests, and has weights as files have them.
TEST_F(ShardCheckTest, TheReferenceBackendIsPlannedAsOthersAreAndServes) {
  options_ = TinyEngineOptions(1);
  options_.compare_memory = true;
  Start(options_);
  WorkerJoined joined{LinkKey(1), TinyHello("w1", int64_t{1} << 30)};
  joined.hello.set_device("reference");
  Give(std::move(joined));
  Turn();
  Ready(1);
  Turn();
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
}

TEST_F(ShardCheckTest, WithoutTheOptionNothingIsCompared) {
  options_.compare_checkpoint = false;
  Begin(2);
  Loaded(1, "");
  Loaded(2, Damaged());
  EXPECT_TRUE(Status().serving());
}

}  // namespace
}  // namespace tutti::coordinator
