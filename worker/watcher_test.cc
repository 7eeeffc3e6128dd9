#include "worker/watcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/clock.h"
#include "transport/inproc_link.h"
#include "worker/executor_testing.h"

namespace tutti::worker {
namespace {

using std::chrono::milliseconds;

class WatcherTest : public ::testing::Test {
 protected:
  // A link to a recorder.
  std::shared_ptr<transport::Link> NewLink(std::shared_ptr<Recorder> far) {
    EXPECT_EQ(network_.Listen("far" + std::to_string(++links_),
                              [this, far](std::unique_ptr<transport::Link> link) {
                                far_ends_.push_back(std::move(link));
                                return std::make_unique<RecordingHandler>(far);
                              }),
              absl::OkStatus());
    return dialer_->Dial("far" + std::to_string(links_),
                         std::make_unique<RecordingHandler>(std::make_shared<Recorder>()));
  }

  SystemClock clock_;
  SystemProcessorMeter processors_;
  Position position_;
  ExecutorWatch watch_{&position_, nullptr, &processors_};
  transport::InprocNetwork network_;
  std::unique_ptr<transport::Dialer> dialer_ = network_.MakeDialer();
  std::vector<std::unique_ptr<transport::Link>> far_ends_;
  int links_ = 0;
};

TEST_F(WatcherTest, BeatsOverTheLinkThatItIsGiven) {
  Watcher watcher(&watch_, &clock_);
  watcher.Start();
  position_.Begin(Activity::kLoading);
  for (int i = 0; i < 2; ++i) {
    auto far = std::make_shared<Recorder>();
    watcher.SetLink(NewLink(far), milliseconds(5));
    for (int beat = 0; beat < 3; ++beat) {
      const v1::Frame frame = far->Await(v1::Frame::kBeat);
      EXPECT_EQ(frame.beat().activity(), "loading its shard");
      EXPECT_GT(frame.beat().resident_bytes(), 0);
    }
    watcher.TakeLink();
    // It was the last to hold the link.
    EXPECT_EQ(far->AwaitClosed(), absl::OkStatus());
  }
}

TEST_F(WatcherTest, BeatsSayWhatTheDriverSays) {
  GpuMonitor monitor({.library = std::string(std::getenv("TUTTI_BINARY_DIR")) +
                                 "/emulated_gpus/libtutti_nvml_testing.so",
                      .gpu = {.id = "GPU-whole", .name = "NVIDIA H200"},
                      .period = milliseconds(5)});
  monitor.AwaitFirst(std::chrono::seconds(60));
  Watcher watcher(&watch_, &clock_, &monitor);
  watcher.Start();
  auto far = std::make_shared<Recorder>();
  watcher.SetLink(NewLink(far), milliseconds(5));
  const v1::Frame frame = far->Await(v1::Frame::kBeat);
  EXPECT_EQ(frame.beat().gpu().name(), "NVIDIA H200");
  EXPECT_EQ(frame.beat().gpu().total_bytes(), int64_t{80} << 30);
  watcher.TakeLink();
}

TEST_F(WatcherTest, EndsWithALinkAndWithout) {
  { Watcher never_started(&watch_, &clock_); }
  {
    Watcher without(&watch_, &clock_);
    without.Start();
  }
  auto far = std::make_shared<Recorder>();
  Watcher with(&watch_, &clock_);
  with.Start();
  with.SetLink(NewLink(far), std::chrono::hours(1));
  far->Await(v1::Frame::kBeat);
  with.Stop();
  EXPECT_EQ(far->AwaitClosed(), absl::OkStatus());
}

}  // namespace
}  // namespace tutti::worker
