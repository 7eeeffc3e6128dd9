// How the engine decides the shape of its pipelines from flags and from the workers that join, and
// how it refuses: it always goes on waiting, says why, and what would help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "coordinator/engine.h"
#include "coordinator/limits.h"
#include "tests/support/tiny_model.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;

class EngineLayoutTest : public testing::Test {
 protected:
  EngineLayoutTest() {
    options_.model = tests::TinyModel(8);
    options_.model_name = "tiny";
    options_.model_fingerprint = "print";
    options_.build = "build";
    options_.cluster_id = "cluster";
    options_.num_stages = 0;
    options_.kv_tokens_max = 1024;
    options_.max_sequences = 8;
    options_.max_batch_tokens = 32;
  }

  void Start() { engine_ = std::make_unique<Engine>(options_); }
  void Turn() { engine_->Advance(now_, &actions_); }
  void Wait(Duration time) {
    now_ += time;
    Turn();
  }
  void Settle() {
    // In steps, so that no lease runs out.
    for (int i = 0; i < 5; ++i) {
      for (const auto& [id, link] : link_of_) {
        v1::Frame frame;
        frame.mutable_beat();
        engine_->Handle(WorkerFrame{link, frame}, now_, &actions_);
      }
      Wait(kJoinSettle / 4);
    }
  }
  virtual v1::Hello HelloOf(const std::string& id, int64_t memory) {
    v1::Hello hello;
    hello.set_protocol_version(kPeerProtocolVersion);
    hello.set_cluster_id("cluster");
    hello.set_worker_id(id);
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_build("build");
    hello.set_numerics_class("class");
    hello.set_model_fingerprint("print");
    hello.set_memory_bytes(memory);
    return hello;
  }
  void Join(const std::string& id, int64_t memory = 1024 * kMiB) {
    const LinkKey link(++last_link_);
    link_of_[id] = link;
    engine_->Handle(WorkerJoined{link, HelloOf(id, memory)}, now_, &actions_);
    Turn();
  }
  void Lose(const std::string& id) {
    engine_->Handle(WorkerLost{link_of_[id], absl::UnavailableError("gone")}, now_, &actions_);
    link_of_.erase(id);
    Turn();
  }
  v1::GetStatusResponse Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status;
  }
  std::string WhyNot() { return Status().why_not_serving(); }
  // "w0: 5, w1: 3": who has how many layers, rank by rank.
  std::vector<std::string> Stages(int pipeline = 0) {
    std::vector<std::string> stages;
    const v1::GetStatusResponse status = Status();
    for (const v1::StageStatus& stage : status.pipelines(pipeline).stages()) {
      stages.push_back(absl::StrCat(stage.worker().worker_id(), ": ", stage.num_layers()));
    }
    return stages;
  }
  std::vector<std::string> Notices() {
    std::vector<std::string> notices;
    for (const Action& action : actions_) {
      if (const auto* notice = std::get_if<Notice>(&action)) notices.push_back(notice->text);
    }
    return notices;
  }
  void Map(const std::string& text) {
    auto map = placement::ParseDeviceMap(text, "map.json", options_.model, -1);
    ASSERT_TRUE(map.ok()) << map.status();
    options_.device_map = *std::move(map);
  }
  void Limit(const std::string& text) { options_.max_memory = *placement::ParseMaxMemory(text); }

  Instant now_ = Instant() + std::chrono::hours(1);
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::vector<Action> actions_;
  std::map<std::string, LinkKey> link_of_;
  uint64_t last_link_ = 0;
};

// ---- modes of Accelerate

TEST_F(EngineLayoutTest, AModeMakesAStageOfEveryWorkerThatHasJoined) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  Start();
  Join("w1");
  Join("w0");
  EXPECT_THAT(WhyNot(), HasSubstr("2 workers have joined; the layout is decided when nobody has"));
  EXPECT_GT(engine_->next_deadline(), now_);
  EXPECT_LE(engine_->next_deadline(), now_ + kJoinSettle);
  Settle();
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w1: 4"));
}

TEST_F(EngineLayoutTest, MinWorkersAreWaitedForAndNobodyElse) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  options_.min_workers = 2;
  Start();
  Join("w1");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("1 of at least 2 have joined (--min-workers)"));
  Join("w0");
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w1: 4")) << "at once";
}

TEST_F(EngineLayoutTest, BalancedLow0LeavesTheFirstWorkerOutIfItCan) {
  options_.device_map.mode = placement::DeviceMapMode::kBalancedLow0;
  options_.min_workers = 3;
  Start();
  for (const char* id : {"w2", "w0", "w1"}) Join(id);
  EXPECT_THAT(Stages(), ElementsAre("w1: 4", "w2: 4"));
  EXPECT_EQ(Status().idle_workers_size(), 1);
}

TEST_F(EngineLayoutTest, SequentialFillsOneWorkerAfterTheOther) {
  options_.device_map.mode = placement::DeviceMapMode::kSequential;
  options_.min_workers = 3;
  Start();
  for (const char* id : {"w2", "w0", "w1"}) Join(id);
  EXPECT_THAT(Stages(), ElementsAre("w0: 8")) << "all fits the first";
}

TEST_F(EngineLayoutTest, AModeGoesOnWithThoseThatAreLeft) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  Start();
  for (const char* id : {"w0", "w1", "w2"}) Join(id);
  Settle();
  EXPECT_THAT(Stages(), testing::SizeIs(3));
  Lose("w1");
  EXPECT_THAT(WhyNot(), HasSubstr("2 workers have joined"));
  Settle();
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w2: 4"));
}

// ---- maps

TEST_F(EngineLayoutTest, NumbersOfAMapFollowTheNamesNotWhoComesFirst) {
  Map(R"({"": 1, "model.embed_tokens": 0, "model.layers.0": 0})");
  Start();
  Join("w10");
  EXPECT_THAT(WhyNot(), HasSubstr("1 worker has joined; the layout is decided when"));
  Join("w2");
  Settle();
  EXPECT_THAT(Stages(), ElementsAre("w2: 1", "w10: 7"));
}

TEST_F(EngineLayoutTest, AMapOfADeviceThatIsNotThereWaitsAndSaysSo) {
  Map(R"({"": 3})");
  Start();
  Join("w0");
  Join("w1");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("waiting for workers: device 3 of the device map is not there; "
                                  "there are 2 devices: 0 (w0), 1 (w1); the nearest is 1"));
  EXPECT_THAT(Notices(), ElementsAre(HasSubstr("device 3 of the device map is not there")));
  Join("w2");
  Join("w3");
  Settle();
  EXPECT_THAT(Stages(), ElementsAre("w3: 8"));
}

TEST_F(EngineLayoutTest, AMappedWorkerThatVanishesBeforeItLoadedIsWaitedFor) {
  Map(R"([{"worker":"w1","layers":3},{"worker":"w0","layers":5}])");
  Start();
  for (const char* id : {"w0", "w1", "w2"}) Join(id);
  EXPECT_THAT(Stages(), ElementsAre("w1: 3", "w0: 5"));
  Lose("w1");
  EXPECT_THAT(WhyNot(), HasSubstr("waiting for workers of the device map: w1; before: worker w1 "
                                  "(stage 0) was lost: gone"));
  Join("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_THAT(Stages(), ElementsAre("w1: 3", "w0: 5"));
}

TEST_F(EngineLayoutTest, ADeviceNamedByNumberAndByNameIsRefused) {
  Map(R"([{"worker":"w1","layers":3},{"worker":1,"layers":5}])");
  options_.min_workers = 2;
  Start();
  Join("w0");
  Join("w1");
  EXPECT_THAT(WhyNot(), HasSubstr("names device 1 (w1) twice"));
}

// ---- limits

TEST_F(EngineLayoutTest, MaxMemoryLimitsAndLeavesOut) {
  Limit("0=1GiB,w2=64MiB");
  options_.num_stages = 2;
  Start();
  for (const char* id : {"w2", "w1", "w0"}) Join(id);
  Settle();
  const auto status = Status();
  ASSERT_EQ(status.pipelines(0).stages_size(), 2);
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w0");
  EXPECT_EQ(status.pipelines(0).stages(1).worker().worker_id(), "w2");
  EXPECT_EQ(status.pipelines(0).stages(1).predicted().budget(), 64 * kMiB);
  EXPECT_EQ(status.idle_workers(0).worker_id(), "w1");
}

TEST_F(EngineLayoutTest, ALimitAddsNothing) {
  Limit("0=100GiB");
  options_.num_stages = 1;
  Start();
  Join("w0", 32 * kMiB);
  Settle();
  EXPECT_EQ(Status().pipelines(0).stages(0).predicted().budget(), 32 * kMiB);
}

TEST_F(EngineLayoutTest, ALimitOfNobodyWaitsAndSaysSo) {
  Limit("0=1GiB,5=1GiB");
  options_.num_stages = 1;
  Start();
  Join("w0");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("there is no device 5 to limit (--max-memory); there is 1 "
                                  "device: 0 (w0)"));
  EXPECT_FALSE(Status().serving());
}

TEST_F(EngineLayoutTest, ALimitGivenTwiceIsRefused) {
  Limit("1=1GiB,w1=1GiB");
  options_.num_stages = 1;
  Start();
  Join("w0");
  Join("w1");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("limits device 1 (w1) twice"));
}

TEST_F(EngineLayoutTest, AMapOfAWorkerThatALimitLeavesOutSaysSo) {
  Limit("0=1GiB");
  Map(R"([{"worker":"w1","layers":8}])");
  Start();
  Join("w0");
  Join("w1");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("w1 (away, or left out by --max-memory)"));
}

TEST_F(EngineLayoutTest, WhatDoesNotFitSaysWhatWouldAndGoesOnWaiting) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  options_.model = tests::TinyModel(400);
  Start();
  Join("w0", 4 * kMiB);
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("the model does not fit"));
  EXPECT_THAT(WhyNot(), HasSubstr("What would fit: "));
  EXPECT_THAT(Notices(), ElementsAre(HasSubstr("no pipeline can form: the model does not fit")));
  Join("w1", 64 * kMiB);
  Settle();
  EXPECT_THAT(Stages(), testing::SizeIs(2));
}

TEST_F(EngineLayoutTest, KvRoomThatWasAskedForIsNotTraded) {
  options_.device_map.mode = placement::DeviceMapMode::kSequential;
  options_.kv_tokens_max = 0;
  options_.kv_tokens_min = 30'000;
  Start();
  Join("w0", 16 * kMiB);
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("with room for only 30000 tokens")) << "1 KiB a token";
  Join("w1", 32 * kMiB);
  Settle();
  EXPECT_THAT(Stages(), testing::SizeIs(2));
}

// ---- layouts left open

TEST_F(EngineLayoutTest, AutoChoosesFromThoseThatJoinedAndTellsWhatItRejected) {
  options_.num_ranks = 0;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  ASSERT_TRUE(status.has_layout());
  const v1::LayoutTried& chosen = status.layout().chosen();
  EXPECT_TRUE(chosen.fits());
  EXPECT_EQ(status.layout().workers(), 4);
  EXPECT_FALSE(status.layout().speeds_known());
  EXPECT_EQ(status.pipelines(0).stages_size(), chosen.stages() * chosen.ranks());
  ASSERT_GT(status.layout().rejected_size(), 0);
  for (const v1::LayoutTried& rejected : status.layout().rejected()) {
    EXPECT_NE(rejected.why_rejected(), "");
    EXPECT_LE(rejected.stages() * rejected.ranks() * rejected.pipelines(), 4);
  }
  EXPECT_THAT(Notices(), ElementsAre(testing::AllOf(HasSubstr("layout: "), HasSubstr("rejected: "),
                                                    HasSubstr("for 4 workers"))));
}

TEST_F(EngineLayoutTest, AutoKeepsWhatWasAskedFor) {
  options_.num_ranks = 2;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  EXPECT_EQ(status.layout().chosen().ranks(), 2);
  EXPECT_EQ(status.pipelines(0).stages(1).rank(), 1);
}

TEST_F(EngineLayoutTest, AutoGoesOnWithASpareAtOnceAndWithLessAfterAWhile) {
  options_.model = tests::TinyModel(400);
  Start();
  for (const char* id : {"w0", "w1", "w2"}) Join(id, 16 * kMiB);
  Settle();
  ASSERT_THAT(Stages(), testing::SizeIs(3)) << WhyNot();
  Join("w3", 16 * kMiB);
  Lose("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_THAT(Stages(), testing::SizeIs(3)) << "the spare takes its place in the same layout";
  Lose("w0");
  Settle();
  EXPECT_THAT(WhyNot(), HasSubstr("the model does not fit"));
  Join("w9", 64 * kMiB);
  Settle();
  EXPECT_GE(Stages().size(), 2u) << WhyNot();
}

TEST_F(EngineLayoutTest, AutoOfSeveralPipelines) {
  options_.num_pipelines = 2;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  ASSERT_EQ(status.pipelines_size(), 2);
  EXPECT_EQ(status.layout().chosen().pipelines(), 2);
  EXPECT_GT(status.pipelines(1).stages_size(), 0);
}

TEST_F(EngineLayoutTest, NobodyHasJoined) {
  Start();
  Turn();
  EXPECT_THAT(WhyNot(), HasSubstr("none has joined"));
  EXPECT_FALSE(Status().has_layout());
}

// ---- speeds

class EngineSpeedsTest : public EngineLayoutTest {
 protected:
  EngineSpeedsTest() {
    options_.num_stages = 2;
    options_.model = tests::TinyModel(12);
  }
  v1::Hello HelloOf(const std::string& id, int64_t memory) override {
    v1::Hello hello = EngineLayoutTest::HelloOf(id, memory);
    hello.set_read_bytes_per_second(speed_[id] * 1e9);
    hello.set_flops_per_second(speed_[id] * 1e10);
    return hello;
  }
  std::map<std::string, double> speed_;
};

TEST_F(EngineSpeedsTest, AQuickWorkerGetsMoreLayers) {
  speed_ = {{"w0", 10}, {"w1", 20}};
  Start();
  Join("w0");
  Join("w1");
  const auto status = Status();
  EXPECT_LT(status.pipelines(0).stages(0).num_layers(), 6);
  EXPECT_GT(status.pipelines(0).stages(1).num_layers(), 6);
}

TEST_F(EngineSpeedsTest, NoiseMovesNoLayer) {
  std::vector<std::string> before;
  for (const double noise : {1.0, 1.05, 1.14, 0.9, 0.97}) {
    speed_ = {{"w0", 10}, {"w1", 10 * noise}};
    Start();
    Join("w0");
    Join("w1");
    if (before.empty()) before = Stages();
    EXPECT_EQ(Stages(), before) << noise;
  }
}

TEST_F(EngineSpeedsTest, SpeedBuysNoMemory) {
  options_.model = tests::TinyModel(400);
  speed_ = {{"w0", 1000}, {"w1", 1}};
  Start();
  Join("w0", 5 * kMiB);
  Join("w1", 64 * kMiB);
  const auto status = Status();
  ASSERT_EQ(status.pipelines(0).stages_size(), 2) << WhyNot();
  for (const v1::StageStatus& stage : status.pipelines(0).stages()) {
    const v1::MemoryBytes& bytes = stage.predicted();
    EXPECT_LE(bytes.weights() + bytes.kv() + bytes.activations(), bytes.budget());
  }
}

TEST_F(EngineSpeedsTest, AWorkerThatComesBackKeepsItsFirstSpeed) {
  speed_ = {{"w0", 10}, {"w1", 20}};
  Start();
  Join("w0");
  Join("w1");
  const std::vector<std::string> before = Stages();
  Lose("w1");
  speed_["w1"] = 2;  // measured beside somebody who computes
  Join("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_EQ(Stages(), before);
}

TEST_F(EngineSpeedsTest, SpeedsThatAreNoneAreRefused) {
  Start();
  for (const double speed : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 1e-9}) {
    speed_["w0"] = speed;
    actions_.clear();
    Join("w0");
    ASSERT_TRUE(std::holds_alternative<CloseWorker>(actions_.front())) << speed;
    const absl::Status& reason = std::get<CloseWorker>(actions_.front()).reason;
    EXPECT_TRUE(absl::IsInvalidArgument(reason)) << reason;
    EXPECT_THAT(reason.ToString(), HasSubstr("--speed off"));
  }
}

TEST_F(EngineSpeedsTest, OneOfUnknownSpeedMakesAllEqual) {
  speed_ = {{"w0", 10}, {"w1", 0}};
  Start();
  Join("w0");
  Join("w1");
  const std::vector<std::string> unequal = Stages();
  speed_ = {{"w0", 0}, {"w1", 0}};
  Start();
  Join("w0");
  Join("w1");
  EXPECT_EQ(Stages(), unequal);
}

}  // namespace
}  // namespace tutti::coordinator
