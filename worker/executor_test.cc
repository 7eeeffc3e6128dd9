// Whole workers but for gRPC: executors with their threads, links and time, over links within the
// process.
#include "worker/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "transport/inproc_link.h"
#include "transport/limits.h"
#include "worker/device_links/device_links_testing.h"
#include "worker/runner_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);

// One end of a link as a test sees it: what came, and waiting for it.
class Recorder {
 public:
  void Add(v1::Frame frame) {
    const MutexLock lock(&mutex_);
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
  }
  void Close(absl::Status reason) {
    const MutexLock lock(&mutex_);
    closed_ = std::move(reason);
    changed_.NotifyAll();
  }
  // The next frame of this kind, from where the last call stopped; empty after kPatience.
  v1::Frame Await(v1::Frame::BodyCase kind) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    do {
      for (; read_ < frames_.size(); ++read_) {
        if (frames_[read_].body_case() == kind) return frames_[read_++];
      }
    } while (changed_.WaitUntil(&mutex_, deadline));
    ADD_FAILURE() << "no frame of kind " << static_cast<int>(kind);
    return {};
  }
  absl::Status AwaitClosed() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (!closed_.has_value() && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_TRUE(closed_.has_value());
    return closed_.value_or(absl::OkStatus());
  }
  size_t Count(v1::Frame::BodyCase kind) {
    const MutexLock lock(&mutex_);
    return std::count_if(frames_.begin(), frames_.end(),
                         [&](const v1::Frame& frame) { return frame.body_case() == kind; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<v1::Frame> frames_ ABSL_GUARDED_BY(mutex_);
  size_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
};

class RecordingHandler : public transport::LinkHandler {
 public:
  explicit RecordingHandler(std::shared_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}
  void OnFrame(v1::Frame frame, transport::Payload) override { recorder_->Add(std::move(frame)); }
  void OnClosed(absl::Status reason) override { recorder_->Close(std::move(reason)); }

 private:
  const std::shared_ptr<Recorder> recorder_;
};

// The coordinator's end of the control links, in order of arrival.
class FakeCoordinator {
 public:
  struct Joined {
    std::unique_ptr<transport::Link> link;
    std::shared_ptr<Recorder> recorder;
    v1::Hello hello;
    void Send(v1::Frame frame) { EXPECT_EQ(link->Send(std::move(frame)), absl::OkStatus()); }
  };

  explicit FakeCoordinator(transport::InprocNetwork* network) : network_(network) { Listen(); }

  void Listen() {
    EXPECT_EQ(network_->Listen("coordinator",
                               [this](std::unique_ptr<transport::Link> link) {
                                 auto recorder = std::make_shared<Recorder>();
                                 const MutexLock lock(&mutex_);
                                 arrived_.push_back({std::move(link), recorder, {}});
                                 changed_.NotifyAll();
                                 return std::make_unique<RecordingHandler>(recorder);
                               }),
              absl::OkStatus());
  }

  // The next worker's link, welcomed.
  std::unique_ptr<Joined> Welcome(uint32_t beat_interval_ms = 20) {
    auto joined = std::make_unique<Joined>(Accept());
    v1::Frame frame;
    frame.mutable_welcome()->set_beat_interval_ms(beat_interval_ms);
    joined->Send(std::move(frame));
    return joined;
  }

  Joined Accept() {
    Joined joined;
    {
      const auto deadline = std::chrono::steady_clock::now() + kPatience;
      const MutexLock lock(&mutex_);
      while (arrived_.empty() && changed_.WaitUntil(&mutex_, deadline)) continue;
      EXPECT_FALSE(arrived_.empty());
      joined = std::move(arrived_.front());
      arrived_.erase(arrived_.begin());
    }
    joined.hello = joined.recorder->Await(v1::Frame::kHello).hello();
    return joined;
  }

 private:
  transport::InprocNetwork* const network_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Joined> arrived_ ABSL_GUARDED_BY(mutex_);
};

// Lets tests hold a runner inside a step.
class Gate {
 public:
  void Close() {
    const MutexLock lock(&mutex_);
    open_ = false;
  }
  void Open() {
    const MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Pass() {
    const MutexLock lock(&mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(&mutex_);
    --waiting_;
  }
  void AwaitSomeoneWaiting() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (waiting_ == 0 && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_GT(waiting_, 0);
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GatedRunner : public CountingRunner {
 public:
  GatedRunner(const v1::AssignShard& shard, std::atomic<int>* alive, Gate* gate)
      : CountingRunner(shard, alive), gate_(gate) {}
  absl::Status Run(const Batch& batch, std::span<const std::byte> input,
                   std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                   const ProgressCallback& progress) override {
    gate_->Pass();
    return CountingRunner::Run(batch, input, output, sampled, progress);
  }

 private:
  Gate* const gate_;
};

// Its device's memory is the host's.
class LinkedRunner : public CountingRunner {
 public:
  LinkedRunner(const v1::AssignShard& shard, std::atomic<int>* alive)
      : CountingRunner(shard, alive),
        slot_bytes_(shard.max_batch_tokens() * kRowBytes),
        memory_(static_cast<size_t>(4 * slot_bytes_)) {}
  LinkMemory link_memory() const override {
    const auto slot = [this](int64_t i) {
      return std::span(memory_).subspan(static_cast<size_t>(i * slot_bytes_),
                                        static_cast<size_t>(slot_bytes_));
    };
    return {.in = {slot(0), slot(1)}, .out = {slot(2), slot(3)}};
  }

 private:
  const int64_t slot_bytes_;
  mutable std::vector<std::byte> memory_;
};

// Samples the sum of what the ranks have: rank r has the token shifted left by r bits, `floats`
// times over.
class SummingRunner : public CountingRunner {
 public:
  SummingRunner(const v1::AssignShard& shard, std::atomic<int>* alive, Gate* gate,
                kernels::Collective* collective, size_t floats)
      : CountingRunner(shard, alive),
        shard_(shard),
        gate_(gate),
        collective_(collective),
        floats_(floats) {
    EXPECT_EQ(collective->Reserve(shard.num_ranks(), Bytes()), absl::OkStatus());
  }
  absl::Status Run(const Batch& batch, std::span<const std::byte>, std::span<std::byte>,
                   std::vector<v1::SampledToken>* sampled, const ProgressCallback&) override {
    if (shard_.rank() == shard_.num_ranks() - 1) gate_->Pass();
    collective_->BeginStep(batch.step.value());
    TUTTI_ASSIGN_OR_RETURN(const auto bytes, collective_->Acquire(Bytes()));
    const std::vector<float> own(floats_, static_cast<float>(batch.tokens[0] << shard_.rank()));
    std::memcpy(bytes.data(), own.data(), bytes.size());
    TUTTI_ASSIGN_OR_RETURN(const auto sum, collective_->Sum());
    const bool is_whole = std::all_of(sum.begin(), sum.end(), [&](float f) { return f == sum[0]; });
    sampled->emplace_back().set_token(is_whole ? static_cast<int32_t>(sum[0]) : -1);
    return absl::OkStatus();
  }
  kernels::CollectiveTraffic rank_traffic() const override { return collective_->traffic(); }

 private:
  int64_t Bytes() const { return static_cast<int64_t>(floats_ * sizeof(float)); }

  const v1::AssignShard shard_;
  Gate* const gate_;
  kernels::Collective* const collective_;
  const size_t floats_;
};

class ExecutorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> StartWorker(const std::string& id) {
    Executor::Options options;
    options.coordinator = "coordinator";
    options.hello.set_protocol_version(1);
    options.hello.set_cluster_id("cluster");
    options.hello.set_worker_id(id);
    options.hello.set_build("build");
    options.hello.set_model_fingerprint("model");
    for (const char* peer : {"w0", "w1", "w2", "w3"}) {
      EXPECT_EQ(options.peers.Add(std::string(peer) + "=at-" + peer), absl::OkStatus());
    }
    options.collective = &collectives_.emplace_back(&clock_);
    options.memory_folder = memory_folder_(id);
    options.factory =
        [this, collective = options.collective](
            const v1::AssignShard& shard,
            const LoadProgress& progress) -> absl::StatusOr<std::unique_ptr<StageRunner>> {
      progress(1, 1);
      if (shard.num_ranks() > 1) {
        return std::make_unique<SummingRunner>(shard, &alive_, &gate_, collective, floats_);
      }
      if (linked_) return std::make_unique<LinkedRunner>(shard, &alive_);
      return std::make_unique<GatedRunner>(shard, &alive_, &gate_);
    };
    if (linked_) {
      options.device_links.new_link = [this] { return devices_.NewLink(); };
      options.device_links.transfer_patience = std::chrono::milliseconds(100);
    }
    auto executor = std::make_unique<Executor>(std::move(options), dialer_.get(), &clock_);
    EXPECT_EQ(network_.Listen("at-" + id, executor->acceptor()), absl::OkStatus());
    executor->Start();
    return executor;
  }

  // Stage `stage` of `stages`, between w<stage - 1> and w<stage + 1>.
  static v1::Frame Assign(uint64_t epoch, int stage, int stages) {
    v1::Frame frame = AssignFrame(epoch, stage, stages);
    v1::AssignShard* shard = frame.mutable_assign_shard();
    if (stage > 0) shard->set_previous_worker_id("w" + std::to_string(stage - 1));
    if (stage + 1 < stages) shard->add_next_worker_ids("w" + std::to_string(stage + 1));
    return frame;
  }

  // Rank `rank` of a stage of `ranks`, w0 and following.
  static v1::Frame AssignRank(uint64_t epoch, int rank, int ranks) {
    v1::Frame frame = AssignFrame(epoch, 0, 1);
    v1::AssignShard* shard = frame.mutable_assign_shard();
    shard->set_rank(rank);
    shard->set_num_ranks(ranks);
    for (int r = 0; r < ranks; ++r) shard->add_rank_worker_ids("w" + std::to_string(r));
    return frame;
  }

  // Starts and assigns a stage of `ranks`.
  struct Ranks {
    std::vector<std::unique_ptr<Executor>> workers;
    std::vector<std::unique_ptr<FakeCoordinator::Joined>> joined;
  };
  Ranks StartRanks(int ranks) {
    Ranks stage;
    for (int rank = 0; rank < ranks; ++rank) {
      stage.workers.push_back(StartWorker("w" + std::to_string(rank)));
      stage.joined.push_back(coordinator_.Welcome());
      stage.joined.back()->Send(AssignRank(1, rank, ranks));
    }
    return stage;
  }

  // Dials a worker as `hello` says and returns why it closed the link.
  absl::Status Knock(const std::string& address, uint64_t epoch,
                     const std::function<void(v1::Hello*)>& change) {
    auto recorder = std::make_shared<Recorder>();
    auto link = dialer_->Dial(address, std::make_unique<RecordingHandler>(recorder));
    v1::Frame frame;
    frame.set_epoch(epoch);
    v1::Hello* hello = frame.mutable_hello();
    hello->set_protocol_version(1);
    hello->set_cluster_id("cluster");
    hello->set_worker_id("w0");
    hello->set_build("build");
    hello->set_model_fingerprint("model");
    hello->set_purpose(v1::LINK_PURPOSE_ACTIVATION);
    change(hello);
    EXPECT_EQ(link->Send(std::move(frame)), absl::OkStatus());
    return recorder->AwaitClosed();
  }

  SystemClock clock_;
  std::deque<LinkCollective> collectives_;  // outlive their executors
  std::atomic<int> alive_ = 0;
  bool linked_ = false;  // workers have devices that link
  TestLinkDevices devices_;
  Gate gate_;
  size_t floats_ = 1;  // that ranks exchange
  std::function<std::string(const std::string& id)> memory_folder_ = [](const std::string&) {
    return "";
  };
  transport::InprocNetwork network_;
  std::unique_ptr<transport::Dialer> dialer_ = network_.MakeDialer();
  FakeCoordinator coordinator_{&network_};
};

TEST_F(ExecutorTest, JoinsAndBeatsWhileIdle) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  EXPECT_EQ(joined->hello.worker_id(), "w0");
  EXPECT_EQ(joined->hello.purpose(), v1::LINK_PURPOSE_CONTROL);
  for (int i = 0; i < 3; ++i) {
    const v1::Frame beat = joined->recorder->Await(v1::Frame::kBeat);
    EXPECT_GT(beat.beat().resident_bytes(), 0);
  }
}

TEST_F(ExecutorTest, ThreeWorkersMakeARing) {
  std::vector<std::unique_ptr<Executor>> workers;
  std::vector<std::unique_ptr<FakeCoordinator::Joined>> joined;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(StartWorker("w" + std::to_string(i)));
    joined.push_back(coordinator_.Welcome());
  }
  // The first stage begins while the others know nothing yet: its activations wait.
  joined[0]->Send(Assign(1, 0, 3));
  joined[0]->recorder->Await(v1::Frame::kShardReady);
  joined[0]->Send(PlanFrame(1, 1, {1, 2, 3, 4, 5}));
  joined[0]->recorder->Await(v1::Frame::kStepDone);
  for (int i : {2, 1}) {
    joined[i]->Send(Assign(1, i, 3));
    joined[i]->recorder->Await(v1::Frame::kShardReady);
    joined[i]->Send(PlanFrame(1, 1, {1, 2, 3, 4, 5}));
  }
  EXPECT_EQ(joined[2]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 8);
  for (uint64_t step = 2; step < 12; ++step) {
    for (auto& worker : joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
  }
  for (uint64_t step = 2; step < 12; ++step) {
    const v1::Frame result = joined[2]->recorder->Await(v1::Frame::kStepResult);
    EXPECT_EQ(result.step_result().step(), step);
    EXPECT_EQ(result.step_result().sampled(0).token(), static_cast<int>(step) + 3);
  }
  // The pipeline forms again, the other way round.
  for (int i = 0; i < 3; ++i) {
    v1::Frame frame = Assign(2, 2 - i, 3);
    v1::AssignShard* shard = frame.mutable_assign_shard();
    if (i < 2) shard->set_previous_worker_id("w" + std::to_string(i + 1));
    shard->clear_next_worker_ids();
    if (i > 0) shard->add_next_worker_ids("w" + std::to_string(i - 1));
    joined[i]->Send(frame);
  }
  for (auto& worker : joined) worker->Send(PlanFrame(2, 1, {30}));
  EXPECT_EQ(joined[0]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(),
            33);
}

class LinkedExecutorTest : public ExecutorTest {
 protected:
  LinkedExecutorTest() {
    linked_ = true;
    for (int i = 0; i < 3; ++i) {
      workers_.push_back(StartWorker("w" + std::to_string(i)));
      joined_.push_back(coordinator_.Welcome());
    }
  }
  // All three ready in `epoch`, and linked.
  void Form(uint64_t epoch) {
    for (int i : {2, 0, 1}) joined_[i]->Send(Assign(epoch, i, 3));
    for (auto& worker : joined_) worker->recorder->Await(v1::Frame::kShardReady);
    const Instant give_up = clock_.Now() + kPatience;
    while (devices_.standing() < 4 && clock_.Now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(devices_.standing(), 4);
  }
  void Plan(uint64_t epoch, uint64_t step, const std::vector<int32_t>& tokens) {
    for (auto& worker : joined_) worker->Send(PlanFrame(epoch, step, tokens));
  }
  int32_t AwaitToken() {
    return joined_[2]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token();
  }

  std::vector<std::unique_ptr<Executor>> workers_;
  std::vector<std::unique_ptr<FakeCoordinator::Joined>> joined_;
};

TEST_F(LinkedExecutorTest, RowsPassFromDeviceToDeviceInEveryEpoch) {
  int64_t transfers = 0;
  for (const uint64_t epoch : {1, 2}) {
    Form(epoch);
    // The first may come before the word that the links stand.
    for (int32_t step = 1; step <= 200 && devices_.transfers() < transfers + 20; ++step) {
      Plan(epoch, step, {1, 2, 3, step});
      EXPECT_EQ(AwaitToken(), step + 3);
    }
    EXPECT_GE(devices_.transfers(), transfers + 20);
    transfers = devices_.transfers();
  }
  const v1::Frame done = joined_[0]->recorder->Await(v1::Frame::kStepDone);
  EXPECT_GE(done.step_done().activation_out().bytes(), 4 * kRowBytes);
}

TEST_F(LinkedExecutorTest, RowsThatGetStuckBetweenDevicesAreNamedAndTheNextEpochServes) {
  Form(1);
  devices_.set_stuck(true);
  const Instant give_up = clock_.Now() + kPatience;
  uint64_t step = 0;
  // Until the first that goes from device to device.
  while (joined_[1]->recorder->Count(v1::Frame::kFailure) == 0 && clock_.Now() < give_up) {
    if (step < 5) Plan(1, ++step, {7});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(joined_[1]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("device link from w0: rows that were sent have not come"));
  for (int i = 0; i < 3; ++i) joined_[i]->Send(Assign(2, i, 3));
  Plan(2, 1, {30});
  EXPECT_EQ(AwaitToken(), 33);
}

TEST_F(LinkedExecutorTest, ANewEpochEndsTheWaitForRowsWithoutBlame) {
  Form(1);
  devices_.set_stuck(true);
  for (uint64_t step = 1; step <= 3; ++step) Plan(1, step, {7});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  devices_.set_stuck(false);
  for (int i = 0; i < 3; ++i) joined_[i]->Send(Assign(2, i, 3));
  Plan(2, 1, {30});
  v1::Frame result;
  do {
    result = joined_[2]->recorder->Await(v1::Frame::kStepResult);
  } while (result.epoch() == 1);
  EXPECT_EQ(result.step_result().sampled(0).token(), 33);
  for (auto& worker : joined_) EXPECT_EQ(worker->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_F(LinkedExecutorTest, WhoSaysThatALinkStandsWithoutOneIsTurnedAway) {
  joined_[1]->Send(Assign(1, 1, 3));
  joined_[1]->recorder->Await(v1::Frame::kShardReady);
  // Rows on the device from somebody who was never told that they may come.
  auto recorder = std::make_shared<Recorder>();
  auto link = dialer_->Dial("at-w1", std::make_unique<RecordingHandler>(recorder));
  v1::Frame hello;
  hello.set_epoch(1);
  hello.mutable_hello()->set_protocol_version(1);
  hello.mutable_hello()->set_cluster_id("cluster");
  hello.mutable_hello()->set_worker_id("w0");
  hello.mutable_hello()->set_build("build");
  hello.mutable_hello()->set_model_fingerprint("model");
  hello.mutable_hello()->set_purpose(v1::LINK_PURPOSE_ACTIVATION);
  EXPECT_EQ(link->Send(std::move(hello)), absl::OkStatus());
  EXPECT_EQ(recorder->Await(v1::Frame::kWelcome).welcome().device_link(), "");
  v1::Frame rows;
  rows.set_epoch(1);
  v1::Activation* chunk = rows.mutable_activation();
  chunk->set_step(1);
  chunk->set_rows(1);
  chunk->set_total_rows(1);
  chunk->set_row_bytes(kRowBytes);
  chunk->set_on_device(true);
  EXPECT_EQ(link->Send(std::move(rows)), absl::OkStatus());
  EXPECT_THAT(joined_[1]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("no device link stands"));
}

TEST_F(ExecutorTest, ComesBackToACoordinatorThatWasAway) {
  network_.StopListening("coordinator");
  auto worker = StartWorker("w0");
  coordinator_.Listen();
  auto first = coordinator_.Welcome();
  first->Send(Assign(7, 0, 1));
  first->recorder->Await(v1::Frame::kShardReady);
  first->link->Close(absl::UnavailableError("restarting"));
  auto second = coordinator_.Welcome();
  // A new coordinator counts from 1; the weights are still there.
  second->Send(Assign(1, 0, 1));
  second->recorder->Await(v1::Frame::kShardReady);
  EXPECT_EQ(alive_, 1);
  second->Send(PlanFrame(1, 1, {4}));
  EXPECT_EQ(second->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 5);
}

TEST_F(ExecutorTest, TriesAgainAfterBeingRefused) {
  auto worker = StartWorker("w0");
  FakeCoordinator::Joined refused = coordinator_.Accept();
  refused.link->Close(absl::FailedPreconditionError("build of the worker is \"build\""));
  auto joined = coordinator_.Welcome();
  joined->recorder->Await(v1::Frame::kBeat);
}

TEST_F(ExecutorTest, AStuckExecutorDoesNotBeat) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome(10);
  joined->Send(Assign(1, 0, 1));
  joined->recorder->Await(v1::Frame::kShardReady);
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  // What was sent before it got stuck arrives before the answer to this one could.
  const size_t before = joined->recorder->Count(v1::Frame::kBeat);
  auto other = StartWorker("w1");
  auto witness = coordinator_.Welcome(10);
  for (int i = 0; i < 10; ++i) witness->recorder->Await(v1::Frame::kBeat);
  EXPECT_LE(joined->recorder->Count(v1::Frame::kBeat), before + 1);
  gate_.Open();
  joined->recorder->Await(v1::Frame::kStepResult);
  joined->recorder->Await(v1::Frame::kBeat);
}

TEST_F(ExecutorTest, StopFinishesTheStep) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 0, 1));
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  worker->RequestStop();
  EXPECT_FALSE(worker->WaitStopped(std::chrono::milliseconds(1)));
  gate_.Open();
  EXPECT_TRUE(worker->WaitStopped(kPatience));
  joined->recorder->Await(v1::Frame::kStepResult);
  EXPECT_EQ(joined->recorder->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, TurnsStrangersAwayByName) {
  auto worker = StartWorker("w1");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(5, 1, 2));
  joined->recorder->Await(v1::Frame::kShardReady);
  const auto says = [&](uint64_t epoch, const std::function<void(v1::Hello*)>& change) {
    return Knock("at-w1", epoch, change).ToString();
  };
  EXPECT_THAT(says(5, [](auto* h) { h->set_worker_id("w2"); }),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("\"w2\""), HasSubstr("\"w0\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_cluster_id("else"); }),
              AllOf(HasSubstr("cluster id"), HasSubstr("\"else\""), HasSubstr("\"cluster\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_build("old"); }),
              AllOf(HasSubstr("build"), HasSubstr("\"old\""), HasSubstr("\"build\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_protocol_version(9); }),
              AllOf(HasSubstr("protocol version"), HasSubstr("\"9\""), HasSubstr("\"1\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_model_fingerprint("other"); }),
              HasSubstr("model fingerprint"));
  EXPECT_THAT(says(5, [](auto* h) { h->set_purpose(v1::LINK_PURPOSE_CONTROL); }),
              HasSubstr("hello.purpose"));
  EXPECT_THAT(says(4, [](auto*) {}), HasSubstr("epoch 4 is over; it is 5"));
  EXPECT_THAT(says(6, [](auto*) {}),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("epoch 6 has not begun here")));
  auto recorder = std::make_shared<Recorder>();
  auto link = dialer_->Dial("at-w1", std::make_unique<RecordingHandler>(recorder));
  EXPECT_EQ(link->Send(PlanFrame(5, 1, {1})), absl::OkStatus());
  EXPECT_THAT(recorder->AwaitClosed().ToString(), HasSubstr("must be hello"));
  // Nobody above disturbed the worker.
  EXPECT_EQ(joined->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_F(ExecutorTest, ANextStageNotInTheTableIsAFailure) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  v1::Frame frame = Assign(1, 0, 2);
  frame.mutable_assign_shard()->set_next_worker_ids(0, "stranger");
  joined->Send(frame);
  EXPECT_THAT(joined->recorder->Await(v1::Frame::kFailure).failure().message(),
              AllOf(HasSubstr("\"stranger\""), HasSubstr("w0, w1, w2, w3")));
}

// How ranks exchange: over their links, through memory, or some one way and some the other.
enum class Ways { kLinks, kMemory, kBoth };

class RankExecutorTest : public ExecutorTest, public ::testing::WithParamInterface<Ways> {
 protected:
  RankExecutorTest() {
    std::filesystem::create_directory(folder_);
    memory_folder_ = [this](const std::string& id) {
      const bool has_memory =
          GetParam() == Ways::kMemory || (GetParam() == Ways::kBoth && id != "w1");
      return has_memory ? folder_ : "";
    };
  }
  // Nothing is left of what ranks shared.
  ~RankExecutorTest() override { EXPECT_TRUE(std::filesystem::remove(folder_)); }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/ranks.", ::getpid());
};

INSTANTIATE_TEST_SUITE_P(Ways, RankExecutorTest,
                         ::testing::Values(Ways::kLinks, Ways::kMemory, Ways::kBoth),
                         [](const auto& info) {
                           if (info.param == Ways::kLinks) return "Links";
                           return info.param == Ways::kMemory ? "Memory" : "Both";
                         });

// Three times what the shared memory holds, both ways at once.
TEST_P(RankExecutorTest, AnExchangeMayBeLargerThanTheMemory) {
  floats_ = 3 * transport::kSharedRingBytes / sizeof(float) + 1;
  Ranks stage = StartRanks(2);
  for (uint64_t step = 1; step <= 3; ++step) {
    for (auto& worker : stage.joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
    const v1::Frame result = stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
    EXPECT_EQ(result.step_result().sampled(0).token(), static_cast<int>(step) * 3);
  }
}

TEST_P(RankExecutorTest, RanksExchangeWithinTheirSteps) {
  constexpr int kRanks = 4;
  constexpr uint64_t kSteps = 8;
  Ranks stage = StartRanks(kRanks);
  for (uint64_t step = 1; step <= kSteps; ++step) {
    for (auto& worker : stage.joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
  }
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const v1::StepResult result =
        stage.joined[0]->recorder->Await(v1::Frame::kStepResult).step_result();
    EXPECT_EQ(result.step(), step);
    EXPECT_EQ(result.sampled(0).token(), static_cast<int>(step) * ((1 << kRanks) - 1));
    EXPECT_EQ(result.done().exchange_out().frames(), static_cast<int64_t>(2 * step));
    const v1::StepDone done =
        stage.joined[kRanks - 1]->recorder->Await(v1::Frame::kStepDone).step_done();
    EXPECT_EQ(done.step(), step);
    EXPECT_GT(done.exchange_in().bytes(), 0);
  }
  EXPECT_EQ(stage.joined[1]->recorder->Count(v1::Frame::kStepResult), 0u);
}

// The one who waits goes on beating and says for whom; the other falls silent.
TEST_P(RankExecutorTest, AWaitingRankSaysForWhom) {
  Ranks stage = StartRanks(2);
  gate_.Close();
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  std::string waiting_for;
  for (int i = 0; i < 100 && waiting_for.empty(); ++i) {
    waiting_for = stage.joined[0]->recorder->Await(v1::Frame::kBeat).beat().waiting_for();
  }
  EXPECT_EQ(waiting_for, "w1");
  gate_.Open();
  stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
  for (int i = 0; i < 100 && !waiting_for.empty(); ++i) {
    waiting_for = stage.joined[0]->recorder->Await(v1::Frame::kBeat).beat().waiting_for();
  }
  EXPECT_EQ(waiting_for, "");
}

TEST_P(RankExecutorTest, ANewEpochEndsTheWaitForARankWithoutBlame) {
  Ranks stage = StartRanks(2);
  gate_.Close();
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  stage.joined[0]->Send(Assign(2, 0, 1));
  stage.joined[0]->recorder->Await(v1::Frame::kShardReady);
  stage.joined[0]->recorder->Await(v1::Frame::kShardReady);
  gate_.Open();
  stage.joined[0]->Send(PlanFrame(2, 1, {4}));
  EXPECT_EQ(
      stage.joined[0]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 5);
  EXPECT_EQ(stage.joined[0]->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_P(RankExecutorTest, ALostRankIsNamedWhenTheEpochGoesOn) {
  Ranks stage = StartRanks(2);
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
  stage.workers[1].reset();
  stage.joined[0]->Send(PlanFrame(1, 2, {1}));  // the step waits for w1, in vain
  EXPECT_THAT(stage.joined[0]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("rank 1 (w1)"));
}

TEST_F(ExecutorTest, ABrokenActivationLinkIsReportedWhenTheEpochGoesOn) {
  auto first = StartWorker("w0");
  auto first_joined = coordinator_.Welcome();
  auto second = StartWorker("w1");
  auto second_joined = coordinator_.Welcome();
  second_joined->Send(Assign(1, 1, 2));
  first_joined->Send(Assign(1, 0, 2));
  for (auto* joined : {first_joined.get(), second_joined.get()}) {
    joined->Send(PlanFrame(1, 1, {1}));
  }
  second_joined->recorder->Await(v1::Frame::kStepResult);
  second.reset();
  EXPECT_THAT(first_joined->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("activation link to w1 at at-w1"));
}

}  // namespace
}  // namespace tutti::worker
