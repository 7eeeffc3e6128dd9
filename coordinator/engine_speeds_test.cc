// Workers of different speeds: how layers follow them, and which speeds are believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "coordinator/engine_layout_testing.h"

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

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
    hello.set_speed_others_share(others_share_[id]);
    return hello;
  }
  std::map<std::string, double> speed_, others_share_;
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
  speed_["w1"] = 2;  // measured beside a process that computes
  Join("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_EQ(Stages(), before);
}

TEST_F(EngineSpeedsTest, LayersFollowASpeedThatIsMeasuredAgainInQuiet) {
  speed_ = {{"w0", 20}, {"w1", 2}};
  others_share_ = {{"w1", 0.7}};
  Start();
  Join("w0");
  Join("w1");
  const int32_t before = Status().pipelines(0).stages(1).num_layers();
  Lose("w1");
  speed_["w1"] = 20;
  others_share_["w1"] = 0;
  Join("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_GT(Status().pipelines(0).stages(1).num_layers(), before);
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
