// Device maps and memory limits: the workers that they mean, and the messages while those are not
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/engine_layout_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using EngineDeviceMapTest = EngineLayoutTest;

TEST_F(EngineDeviceMapTest, NumbersOfAMapFollowTheNamesNotWhoComesFirst) {
  Map(R"({"": 1, "model.embed_tokens": 0, "model.layers.0": 0})");
  Start();
  Join("w10");
  EXPECT_THAT(WhyNot(), HasSubstr("1 worker has joined; the layout is decided when"));
  Join("w2");
  WaitUntilDecided();
  EXPECT_THAT(Stages(), ElementsAre("w2: 1", "w10: 7"));
}

TEST_F(EngineDeviceMapTest, AMapOfADeviceThatIsNotThereWaitsAndSaysSo) {
  Map(R"({"": 3})");
  Start();
  Join("w0");
  Join("w1");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("waiting for workers: device 3 of the device map is not there; "
                                  "there are 2 devices: 0 (w0), 1 (w1); the nearest is 1"));
  EXPECT_THAT(Notices(), ElementsAre(HasSubstr("device 3 of the device map is not there")));
  Join("w2");
  Join("w3");
  WaitUntilDecided();
  EXPECT_THAT(Stages(), ElementsAre("w3: 8"));
}

TEST_F(EngineDeviceMapTest, AMappedWorkerThatVanishesBeforeItLoadedIsWaitedFor) {
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

TEST_F(EngineDeviceMapTest, ADeviceNamedByNumberAndByNameIsRefused) {
  Map(R"([{"worker":"w1","layers":3},{"worker":1,"layers":5}])");
  options_.min_workers = 2;
  Start();
  Join("w0");
  Join("w1");
  EXPECT_THAT(WhyNot(), HasSubstr("names device 1 (w1) twice"));
}

TEST_F(EngineDeviceMapTest, MaxMemoryLimitsAndLeavesOut) {
  Limit("0=1GiB,w2=64MiB");
  options_.num_stages = 2;
  Start();
  for (const char* id : {"w2", "w1", "w0"}) Join(id);
  WaitUntilDecided();
  const auto status = Status();
  ASSERT_EQ(status.pipelines(0).stages_size(), 2);
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w0");
  EXPECT_EQ(status.pipelines(0).stages(1).worker().worker_id(), "w2");
  EXPECT_EQ(status.pipelines(0).stages(1).predicted().budget(), 64 * kMiB);
  EXPECT_EQ(status.idle_workers(0).worker_id(), "w1");
}

TEST_F(EngineDeviceMapTest, ALimitAddsNothing) {
  Limit("0=100GiB");
  options_.num_stages = 1;
  Start();
  Join("w0", 32 * kMiB);
  WaitUntilDecided();
  EXPECT_EQ(Status().pipelines(0).stages(0).predicted().budget(), 32 * kMiB);
}

TEST_F(EngineDeviceMapTest, ALimitOfNobodyWaitsAndSaysSo) {
  Limit("0=1GiB,5=1GiB");
  options_.num_stages = 1;
  Start();
  Join("w0");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("there is no device 5 to limit (--max-memory); there is 1 "
                                  "device: 0 (w0)"));
  EXPECT_FALSE(Status().serving());
}

TEST_F(EngineDeviceMapTest, ALimitGivenTwiceIsRefused) {
  Limit("1=1GiB,w1=1GiB");
  options_.num_stages = 1;
  Start();
  Join("w0");
  Join("w1");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("limits device 1 (w1) twice"));
}

TEST_F(EngineDeviceMapTest, AMapOfAWorkerThatALimitLeavesOutSaysSo) {
  Limit("0=1GiB");
  Map(R"([{"worker":"w1","layers":8}])");
  Start();
  Join("w0");
  Join("w1");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("w1 (away, or left out by --max-memory)"));
}

}  // namespace
}  // namespace tutti::coordinator
