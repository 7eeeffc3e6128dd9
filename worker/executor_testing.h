// Support for tests of whole workers but for gRPC: executors with their threads, links and time,
// over links within the process, and the coordinator's end of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "transport/inproc_link.h"
#include "worker/device_links/device_links_testing.h"
#include "worker/executor.h"
#include "worker/runner_testing.h"

namespace tutti::worker {

inline constexpr auto kPatience = std::chrono::seconds(20);

// One end of a link as a test sees it: the frames that came, and waiting for them.
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

  explicit FakeCoordinator(transport::InprocNetwork* network, std::string name = "coordinator")
      : network_(network), name_(std::move(name)) {
    Listen();
  }

  void Listen() {
    EXPECT_EQ(network_->Listen(name_,
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
  std::unique_ptr<Joined> Welcome(uint32_t beat_interval_ms = 20, uint32_t incarnation = 0) {
    auto joined = std::make_unique<Joined>(Accept());
    v1::Frame frame;
    frame.mutable_welcome()->set_beat_interval_ms(beat_interval_ms);
    frame.mutable_welcome()->set_incarnation(incarnation);
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
  const std::string name_;
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

// With a draft model that waits at the gate.
class DraftedRunner : public CountingRunner {
 public:
  DraftedRunner(const v1::AssignShard& shard, std::atomic<int>* alive, Gate* gate)
      : CountingRunner(shard, alive), draft_(shard, alive, gate) {}
  DraftModel draft() override { return {.runner = &draft_, .max_model_len = 64}; }

 private:
  GatedRunner draft_;
};

// Samples the sum over the ranks: rank r has the token shifted left by r bits, `floats`
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
    options.coordinators = {"coordinator", "other"};
    options.hello.set_protocol_version(1);
    options.hello.set_cluster_id("cluster");
    options.hello.set_worker_id(id);
    options.hello.set_build("build");
    options.hello.set_model_fingerprint("model");
    options.links.peers.peers_are_proved = !announced_.empty();
    for (const char* peer : {"w0", "w1", "w2", "w3"}) {
      if (!announced_.empty()) break;
      EXPECT_EQ(options.links.peers.table.Add(std::string(peer) + "=unix:at-" + peer),
                absl::OkStatus());
    }
    options.links.collective = &collectives_.emplace_back(&clock_);
    options.links.memory_folder = memory_folder_(id);
    options.factory =
        [this, collective = options.links.collective](
            const v1::AssignShard& shard,
            const ShardProgressCallback& progress) -> absl::StatusOr<std::unique_ptr<StageRunner>> {
      progress(1, 1);
      if (shard.num_ranks() > 1) {
        return std::make_unique<SummingRunner>(shard, &alive_, &gate_, collective, floats_);
      }
      if (linked_) return std::make_unique<LinkedRunner>(shard, &alive_);
      if (shard.draft()) return std::make_unique<DraftedRunner>(shard, &alive_, &gate_);
      return std::make_unique<GatedRunner>(shard, &alive_, &gate_);
    };
    if (linked_) {
      options.links.device_links.new_link = [this] { return devices_.NewLink(); };
      options.links.device_links.transfer_patience = std::chrono::milliseconds(100);
    }
    auto executor = std::make_unique<Executor>(std::move(options), dialer_.get(), &clock_);
    EXPECT_EQ(network_.Listen("unix:at-" + id, executor->acceptor()), absl::OkStatus());
    executor->Announce(*Announcer::Create(announced_, ""));
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
  bool linked_ = false;    // workers have devices that link
  std::string announced_;  // by each worker, which has no table then
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

}  // namespace tutti::worker
