#include "coordinator/membership.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "base/protocol.h"
#include "base/status.h"
#include "coordinator/gpu_reading.h"
#include "coordinator/limits.h"
#include "transport/announced_address.h"

namespace tutti::coordinator {
namespace {

absl::Status Differs(const char* what, const std::string& worker, const std::string& coordinator) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " of the worker is \"", absl::CHexEscape(worker),
                   "\", of the coordinator \"", coordinator, "\""));
}

// The run of digits at the front of `text`, without leading zeros, cut off from `text`.
std::string_view CutNumber(std::string_view* text) {
  size_t end = 0;
  while (end < text->size() && absl::ascii_isdigit((*text)[end])) ++end;
  std::string_view number = text->substr(0, end);
  text->remove_prefix(end);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

bool Within(double value, double least, double most) {
  return std::isfinite(value) && value >= least && value <= most;
}

// Both or none.
absl::Status CheckSpeed(const v1::Hello& hello) {
  const double read = hello.read_bytes_per_second();
  const double flops = hello.flops_per_second();
  if (read == 0 && flops == 0) return absl::OkStatus();
  if (Within(read, kReadSpeedMin, kReadSpeedMax) && Within(flops, kFlopsMin, kFlopsMax)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the worker says it reads ", read, " bytes/s (", kReadSpeedMin, " to ", kReadSpeedMax,
      " are believed) and computes ", flops, " operations/s (", kFlopsMin, " to ", kFlopsMax,
      "); start it with --speed off, or with what is right"));
}

}  // namespace

bool NaturallyBefore(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a.front()) && absl::ascii_isdigit(b.front())) {
      const std::string_view number_a = CutNumber(&a);
      const std::string_view number_b = CutNumber(&b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // "w01" and "w1"
}

DeviceKind DeviceKindOf(const v1::Hello& hello) {
  return hello.device_kind() == v1::DEVICE_KIND_CUDA ? DeviceKind::kCuda : DeviceKind::kCpu;
}

absl::Status Membership::Check(const v1::Hello& hello) const {
  if (!v1::DeviceKind_IsValid(hello.device_kind())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker's device_kind is ", static_cast<int>(hello.device_kind())));
  }
  TUTTI_RETURN_IF_ERROR(CheckProtocol("the worker", hello.protocol_version(), "the coordinator",
                                      kPeerProtocolVersion));
  if (hello.purpose() != v1::LINK_PURPOSE_CONTROL) {
    return absl::FailedPreconditionError("only control links come to the coordinator");
  }
  if (hello.cluster_id() != options_.cluster_id) {
    return Differs("cluster id", hello.cluster_id(), options_.cluster_id);
  }
  if (hello.model_fingerprint() != options_.model_fingerprint) {
    return Differs("model fingerprint", hello.model_fingerprint(), options_.model_fingerprint);
  }
  const std::string wanted_class = numerics_class();
  if (!options_.mix_numerics && !wanted_class.empty() && hello.numerics_class() != wanted_class) {
    return absl::FailedPreconditionError(
        absl::StrCat("numerics class of the worker is \"", absl::CHexEscape(hello.numerics_class()),
                     "\", of the pipeline \"", wanted_class,
                     "\": results would depend on which worker computes them, and mixing is not "
                     "allowed"));
  }
  const int64_t memory_min = options_.memory_bytes_min[static_cast<size_t>(DeviceKindOf(hello))];
  if (hello.memory_bytes() < memory_min) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker offers ", hello.memory_bytes(),
                     " bytes of memory; the smallest stage of this model needs ", memory_min));
  }
  TUTTI_RETURN_IF_ERROR(CheckSpeed(hello));
  if (!hello.advertised_address().empty()) {
    TUTTI_RETURN_IF_ERROR(transport::ParseAnnouncedAddress(hello.advertised_address()).status());
  }
  for (const auto& [link, worker] : workers_) {
    if (worker.id() == hello.worker_id()) {
      return absl::AlreadyExistsError(absl::StrCat(
          "worker \"", worker.id(), "\" is connected and alive; worker ids must be unique"));
    }
  }
  return absl::OkStatus();
}

placement::DeviceSpeed Membership::SpeedOf(const v1::Hello& hello) {
  const FirstSpeed now{
      hello.device(), hello.threads(), {hello.read_bytes_per_second(), hello.flops_per_second()}};
  const auto found = first_speeds_.find(hello.worker_id());
  if (found == first_speeds_.end()) {
    if (now.speed.known() && first_speeds_.size() < kDeviceNumbersMax) {
      first_speeds_.emplace(hello.worker_id(), now);
    }
    return now.speed;
  }
  FirstSpeed& first = found->second;
  const bool same = first.device == now.device && first.threads == now.threads;
  if (!same) first = now;
  return now.speed.known() ? first.speed : now.speed;
}

Worker* Membership::Join(LinkKey link, const v1::Hello& hello, Instant now) {
  return &workers_
              .emplace(link, Worker{.link = link,
                                    .hello = hello,
                                    .joined_at = now,
                                    .speed = SpeedOf(hello),
                                    .last_heard = now,
                                    .last_progress = now})
              .first->second;
}

Worker* Membership::Find(LinkKey link) {
  const auto found = workers_.find(link);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* Membership::FindId(std::string_view worker_id) {
  for (auto& [link, worker] : workers_) {
    if (worker.id() == worker_id) return &worker;
  }
  return nullptr;
}

std::vector<Worker*> Membership::All() {
  std::vector<Worker*> all;
  for (auto& [link, worker] : workers_) all.push_back(&worker);
  return all;
}

std::vector<Worker*> Membership::InOrder() {
  std::vector<Worker*> all = All();
  std::sort(all.begin(), all.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  return all;
}

std::vector<Worker*> Membership::Idle() {
  std::vector<Worker*> idle = InOrder();
  std::erase_if(idle, [](const Worker* worker) { return worker->stage >= 0; });
  return idle;
}

std::vector<const Worker*> Membership::Idle() const {
  std::vector<const Worker*> idle;
  for (const auto& [link, worker] : workers_) {
    if (worker.stage < 0) idle.push_back(&worker);
  }
  std::sort(idle.begin(), idle.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  return idle;
}

std::string Membership::numerics_class() const {
  if (!options_.numerics_class.empty()) return options_.numerics_class;
  return workers_.empty() ? "" : workers_.begin()->second.hello.numerics_class();
}

absl::Status CheckFetch(const v1::ShardProgress& progress) {
  const double pace = progress.fetch_bytes_per_second();
  if (progress.fetched_bytes() >= 0 && progress.fetched_bytes() <= progress.fetch_bytes() &&
      pace >= 0 && std::isfinite(pace)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("it says that it has fetched ", progress.fetched_bytes(), " of ",
                   progress.fetch_bytes(), " bytes, ", pace, " in a second"));
}

std::string FetchText(const v1::ShardProgress& progress) {
  if (progress.fetched_bytes() >= progress.fetch_bytes()) return "";
  const auto percent = static_cast<int>(100.0 * static_cast<double>(progress.fetched_bytes()) /
                                        static_cast<double>(progress.fetch_bytes()));
  const double pace = std::min(progress.fetch_bytes_per_second(), 1e15);
  return absl::StrCat("fetched ", percent, " %, ", FormatBytes(progress.fetched_bytes()), " of ",
                      FormatBytes(progress.fetch_bytes()), ", ",
                      FormatBytes(static_cast<int64_t>(pace)), "/s, from the coordinator");
}

void FillWorkerStatus(const Worker& worker, Instant now, v1::WorkerStatus* status) {
  status->set_worker_id(worker.id());
  status->set_device(worker.hello.device());
  status->set_memory_bytes(worker.hello.memory_bytes());
  status->set_threads(worker.hello.threads());
  status->set_last_progress_ms_ago(Milliseconds(now - worker.last_heard));
  status->set_numerics_class(worker.hello.numerics_class());
  status->set_read_bytes_per_second(worker.speed.read_bytes_per_second);
  status->set_flops_per_second(worker.speed.flops_per_second);
  status->set_leaving(worker.leaving);
  if (worker.gpu.has_value()) {
    FillGpu(*worker.gpu, now - worker.gpu_read_at, status->mutable_gpu());
  }
  if (worker.drained) status->set_standby("drained");
  if (worker.slow && !worker.drained) status->set_standby("slow");
  if (!worker.standby.has_value()) return;
  const Worker::Standby& standby = *worker.standby;
  status->set_standby(absl::StrCat(
      worker.slow ? "slow, " : "", "stage ", standby.shard.stage(),
      standby.shard.num_ranks() > 1 ? absl::StrCat(" rank ", standby.shard.rank()) : "",
      " of pipeline ", standby.pipeline, ", ",
      standby.ready ? "loaded"
      : !standby.fetch.empty()
          ? standby.fetch
          : absl::StrCat(static_cast<int>(standby.loaded_share * 100), " % loaded")));
}

}  // namespace tutti::coordinator
