// The workers that have joined: their names and devices, when they last showed progress, which part
// of a pipeline they serve.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/device_kind.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/events.h"
#include "coordinator/fleet/class_choice.h"
#include "coordinator/fleet/first_speeds.h"
#include "placement/placement.h"
#include "placement/step_cost.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

struct Worker {
  // Constant after construction.
  LinkKey link;
  v1::Hello hello;
  Instant joined_at;
  // Speeds in each numerics class, as it first was, see FirstSpeeds, and the share of its machine
  // that others had while they were measured.
  std::map<std::string, placement::DeviceSpeed> speeds;
  double speed_others_share = 0;

  placement::DeviceSpeed speed;  // in the class that it computes in
  Instant last_heard;            // of the last frame; renews the lease
  Instant last_progress;         // when `progress` last grew, or a step was done
  uint64_t progress = 0;
  int64_t resident_bytes = 0;
  std::optional<v1::GpuReading> gpu;  // as a beat said it last, and when
  Instant gpu_read_at{};
  int32_t pipeline = -1;    // -1: idle
  int32_t stage = -1;       // in the current epoch of that pipeline; -1: idle
  int32_t rank = 0;         // of that stage
  std::string waiting_for;  // the worker that its step waits for, as its last beat said
  // Its last beat said that its executor is at work that has a limit, and within it; since when all
  // its beats have said so without progress.
  bool at_work = false;
  Instant at_work_since{};
  // The shard it has loaded, perhaps in an epoch that is over: kept, because the next one often
  // wants the same.
  bool holds_shard = false;
  int32_t held_stage = -1;  // the stage and rank that shard is of
  int32_t held_rank = 0;
  Epoch shard_epoch;
  // The shard that it loads ahead while it is idle; none: none.
  struct Standby {
    uint32_t pipeline = 0;
    placement::StagePlacement placement;
    v1::AssignShard shard;  // without the names of workers
    double loaded_share = 0;
    std::string fetch;  // FetchText
    bool ready = false;
  };
  std::optional<Standby> standby;
  bool leaving = false;  // it was told to stop, and serves until it is let go
  bool drained = false;  // an operator wants nothing of it any more; it stays linked
  bool goes() const { return leaving || drained; }
  // It was slow for long, and its place has moved: others are preferred until it joins anew, or an
  // operator takes it back.
  bool slow = false;

  const std::string& id() const { return hello.worker_id(); }
};

struct MembershipOptions {
  std::string cluster_id;
  std::string model_fingerprint;
  std::string draft_fingerprint;  // of the draft model that all must have; "": any may have any
  std::string numerics_class;  // "": chosen from the workers that join
  bool mix_numerics = false;
  // The least memory of each kind of device: less cannot serve any stage.
  std::array<int64_t, kDeviceKinds> memory_bytes_min = {};
};

class Membership {
 public:
  explicit Membership(MembershipOptions options) : options_(std::move(options)) {}

  // Whether this worker may join; the refusal says what differs, with both sides' values.
  // FAILED_PRECONDITION: cluster, protocol, model, draft model, or a numerics class that is settled
  // and that it cannot compute, or one that is not exact and that the operator has not named.
  // INVALID_ARGUMENT: a speed outside of the range that is believed, an announced address that is
  // none, classes that contradict each other. ALREADY_EXISTS: a worker of that id is alive on
  // another link. RESOURCE_EXHAUSTED: too little memory for any stage.
  absl::Status Check(const v1::Hello& hello) const;
  // A worker that comes back as it was keeps the speed it had at first, see FirstSpeeds.
  // REQUIRES: Check(hello) is OK, the link is new
  Worker* Join(LinkKey link, const v1::Hello& hello, Instant now);
  void Remove(LinkKey link) { workers_.erase(link); }

  Worker* Find(LinkKey link);
  Worker* FindId(std::string_view worker_id);
  // Workers in order of joining.
  std::vector<Worker*> All();
  // Those of a pipeline, in the same order.
  std::vector<Worker*> Of(PipelineId pipeline) {
    std::vector<Worker*> workers = All();
    std::erase_if(workers, [pipeline](const Worker* worker) {
      return worker->pipeline != static_cast<int32_t>(pipeline.value());
    });
    return workers;
  }
  // Workers in natural order of their ids: w2 before w10.
  std::vector<Worker*> InOrder();
  // The workers of InOrder that have no part in a pipeline.
  std::vector<Worker*> Idle();
  std::vector<const Worker*> Idle() const;
  size_t size() const { return workers_.size(); }

  // ---- the numerics class; who decides when it is chosen is Fleet (fleet_class.cc)

  // The class that pipelines form in: the operator's, or the one chosen last. Where several are
  // mixed, that of the worker that joined first. "": none yet.
  std::string numerics_class() const;
  // The class that the worker computes in.
  const std::string& ClassOf(const Worker& worker) const;
  bool CanCompute(const Worker& worker) const;
  // Whether the worker says that the class it computes in is not exact. The one place that knows.
  bool IsInexact(const Worker& worker) const;
  // Whether there is a choice at all: neither the operator's word nor a mixture.
  bool chooses_class() const { return options_.numerics_class.empty() && !options_.mix_numerics; }
  // Chooses from all that have joined, see ChooseClass; keeps what there is where none has.
  void ChooseClass(const std::string& kept);
  // From now on who cannot compute the class may not join, or may again.
  void SettleClass(bool settled) { class_settled_ = settled; }
  bool class_settled() const { return class_settled_ || !chooses_class(); }
  const ClassChoice& class_choice() const { return class_choice_; }
  // FAILED_PRECONDITION: no exact class is the worker's, and the operator has named none of its.
  absl::Status CheckExact(const v1::Hello& hello) const;
  // FAILED_PRECONDITION: the worker cannot compute the class; what can be done.
  absl::Status CheckClass(const v1::Hello& hello) const;
  // The class and why it is this one, where there is a choice.
  void FillStatus(v1::GetStatusResponse* status) const;

 private:
  std::vector<ClassCandidate> Candidates() const;

  const MembershipOptions options_;
  std::map<LinkKey, Worker> workers_;
  ClassChoice class_choice_;
  bool class_settled_ = false;
  FirstSpeeds first_speeds_;
};

DeviceKind DeviceKindOf(const v1::Hello& hello);

// Whether `a` comes before `b` when runs of digits are read as numbers.
bool NaturallyBefore(std::string_view a, std::string_view b);

// Whether what a worker says of its fetch can be. INVALID_ARGUMENT.
absl::Status CheckFetch(const v1::ShardProgress& progress);
// The progress of a fetch, for people: "fetched 37 %, 1.2 GiB of 3.4 GiB, 210 MiB/s, from the
// coordinator"; empty once it is done.  REQUIRES: CheckFetch is OK
std::string FetchText(const v1::ShardProgress& progress);

void FillWorkerStatus(const Worker& worker, Instant now, v1::WorkerStatus* status);

}  // namespace tutti::coordinator
