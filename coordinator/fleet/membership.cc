#include "coordinator/fleet/membership.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/byte_size.h"
#include "base/protocol.h"
#include "base/status.h"
#include "coordinator/fleet/gpu_reading.h"
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
absl::Status CheckSpeed(double read, double flops) {
  if (read == 0 && flops == 0) return absl::OkStatus();
  if (Within(read, kReadSpeedMin, kReadSpeedMax) && Within(flops, kFlopsMin, kFlopsMax)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the worker says it reads ", read, " bytes/s (", kReadSpeedMin, " to ", kReadSpeedMax,
      " are believed) and computes ", flops, " operations/s (", kFlopsMin, " to ", kFlopsMax,
      "); start it with --speed off, or with what is right"));
}

// It is shown to people, and stands in tokens.
absl::Status CheckClassName(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
  if (plain && !name.empty() && name.size() <= kClassNameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the worker names a numerics class \"", absl::CHexEscape(name.substr(0, 99)),
                   "\"; a name is 1 to ", kClassNameBytesMax, " of [A-Za-z0-9._-]"));
}

// The classes that a worker says it can compute.
absl::Status CheckOffers(const v1::Hello& hello) {
  if (hello.numerics_size() > kClassOffersMax) {
    return absl::InvalidArgumentError(absl::StrCat("the worker names ", hello.numerics_size(),
                                                   " numerics classes, at most ", kClassOffersMax,
                                                   " are believed"));
  }
  TUTTI_RETURN_IF_ERROR(CheckClassName(hello.numerics_class()));
  std::set<std::string> named;
  for (const v1::NumericsOffer& offer : hello.numerics()) {
    TUTTI_RETURN_IF_ERROR(CheckClassName(offer.numerics_class()));
    if (!named.insert(offer.numerics_class()).second) {
      return absl::InvalidArgumentError(absl::StrCat("the worker names the numerics class \"",
                                                     offer.numerics_class(), "\" twice"));
    }
    TUTTI_RETURN_IF_ERROR(CheckSpeed(offer.read_bytes_per_second(), offer.flops_per_second()));
  }
  if (hello.numerics().empty() || hello.numerics(0).numerics_class() == hello.numerics_class()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the worker computes in numerics class \"", hello.numerics_class(),
      "\", and the first that it can compute is \"", hello.numerics(0).numerics_class(), "\""));
}

std::vector<std::string> ClassesOf(const v1::Hello& hello) {
  if (hello.numerics().empty()) return {hello.numerics_class()};
  std::vector<std::string> classes;
  for (const auto& offer : hello.numerics()) classes.push_back(offer.numerics_class());
  return classes;
}

bool Offers(const v1::Hello& hello, const std::string& numerics_class) {
  const std::vector<std::string> classes = ClassesOf(hello);
  return std::find(classes.begin(), classes.end(), numerics_class) != classes.end();
}

bool CallsInexact(const v1::Hello& hello, const std::string& numerics_class) {
  return std::any_of(hello.numerics().begin(), hello.numerics().end(), [&](const auto& offer) {
    return offer.inexact() && offer.numerics_class() == numerics_class;
  });
}

ClassCandidate CandidateOf(const v1::Hello& hello,
                           const std::map<std::string, placement::DeviceSpeed>& speeds) {
  ClassCandidate candidate{
      .worker_id = hello.worker_id(), .offers = {}, .last = hello.last_numerics_class()};
  for (const std::string& one : ClassesOf(hello)) {
    const auto speed = speeds.find(one);
    candidate.offers.push_back({.numerics_class = one, .inexact = CallsInexact(hello, one)});
    if (speed != speeds.end()) {
      candidate.offers.back().flops_per_second = speed->second.flops_per_second;
    }
  }
  return candidate;
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
  const std::string& draft = options_.draft_fingerprint;
  if (!draft.empty() && hello.draft_fingerprint() != draft) {
    const absl::Status differs =
        Differs("draft model fingerprint", hello.draft_fingerprint(), draft);
    return absl::FailedPreconditionError(
        absl::StrCat(differs.message(), "; start both with the same --draft-model"));
  }
  TUTTI_RETURN_IF_ERROR(CheckOffers(hello));
  TUTTI_RETURN_IF_ERROR(CheckExact(hello));
  if (class_settled()) TUTTI_RETURN_IF_ERROR(CheckClass(hello));
  const int64_t memory_min = options_.memory_bytes_min[static_cast<size_t>(DeviceKindOf(hello))];
  if (hello.memory_bytes() < memory_min) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker offers ", FormatBytes(hello.memory_bytes()),
                     " of memory; the smallest stage of this model needs ", FormatBytes(memory_min),
                     " (give the worker more with --memory; `tutti up`: --memory-per-worker)"));
  }
  TUTTI_RETURN_IF_ERROR(CheckSpeed(hello.read_bytes_per_second(), hello.flops_per_second()));
  if (!Within(hello.speed_others_share(), 0, 1)) {
    return absl::InvalidArgumentError(absl::StrCat("the worker says that others had ",
                                                   hello.speed_others_share(),
                                                   " of its machine; a share is 0 to 1"));
  }
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

Worker* Membership::Join(LinkKey link, const v1::Hello& hello, Instant now) {
  FirstSpeeds::Speeds first = first_speeds_.Of(hello);
  Worker* const worker = &workers_
                              .emplace(link, Worker{.link = link,
                                                    .hello = hello,
                                                    .joined_at = now,
                                                    .speeds = std::move(first.by_class),
                                                    .speed_others_share = first.others_share,
                                                    .speed = {},
                                                    .last_heard = now,
                                                    .last_progress = now})
                              .first->second;
  worker->speed = worker->speeds[ClassOf(*worker)];
  return worker;
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
  if (!options_.mix_numerics) return class_choice_.numerics_class;
  return workers_.empty() ? "" : workers_.begin()->second.hello.numerics_class();
}

const std::string& Membership::ClassOf(const Worker& worker) const {
  if (options_.mix_numerics) return worker.hello.numerics_class();
  const std::string& serving =
      options_.numerics_class.empty() ? class_choice_.numerics_class : options_.numerics_class;
  return Offers(worker.hello, serving) ? serving : worker.hello.numerics_class();
}

bool Membership::CanCompute(const Worker& worker) const {
  const std::string serving = numerics_class();
  return options_.mix_numerics || serving.empty() || Offers(worker.hello, serving);
}

bool Membership::IsInexact(const Worker& worker) const {
  return CallsInexact(worker.hello, ClassOf(worker));
}

std::vector<ClassCandidate> Membership::Candidates() const {
  std::vector<const Worker*> all;
  for (const auto& [link, worker] : workers_) {
    if (!worker.goes()) all.push_back(&worker);
  }
  if (all.empty()) {
    for (const auto& [link, worker] : workers_) all.push_back(&worker);
  }
  std::sort(all.begin(), all.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  std::vector<ClassCandidate> candidates;
  for (const Worker* one : all) candidates.push_back(CandidateOf(one->hello, one->speeds));
  return candidates;
}

void Membership::ChooseClass(const std::string& kept) {
  if (workers_.empty()) return;
  class_choice_ = coordinator::ChooseClass(Candidates(), kept);
  for (auto& [link, worker] : workers_) worker.speed = worker.speeds[ClassOf(worker)];
}

// In a mixture each computes in the first class that it names.
absl::Status Membership::CheckExact(const v1::Hello& hello) const {
  for (const std::string& one : ClassesOf(hello)) {
    if (!CallsInexact(hello, one) || one == options_.numerics_class) return absl::OkStatus();
    if (options_.mix_numerics) break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("numerics class of the worker: ", InexactText(hello.numerics_class())));
}

absl::Status Membership::CheckClass(const v1::Hello& hello) const {
  const std::string serving = numerics_class();
  if (options_.mix_numerics || serving.empty() || Offers(hello, serving)) return absl::OkStatus();
  std::vector<ClassCandidate> others = Candidates();
  std::erase_if(others, [&](const auto& one) { return one.worker_id == hello.worker_id(); });
  return absl::FailedPreconditionError(absl::StrCat(
      "numerics class of the worker is \"", absl::StrJoin(ClassesOf(hello), "\" or \""),
      "\", of the pipeline \"", serving, "\": results would depend on which worker computes them; ",
      options_.numerics_class.empty() ? AdviceFor(CandidateOf(hello, {}), others, serving)
                                      : "the coordinator's --numerics-class says so"));
}

void Membership::FillStatus(v1::GetStatusResponse* status) const {
  const std::string serving = numerics_class();
  if (options_.mix_numerics || serving.empty()) return;
  v1::NumericsChoice* const choice = status->mutable_numerics();
  choice->set_numerics_class(serving);
  choice->set_settled(class_settled());
  const bool chosen = chooses_class();
  bool inexact = false;
  for (const auto& [link, worker] : workers_) inexact |= IsInexact(worker);
  choice->set_why(chosen ? class_choice_.why : OperatorsWord(inexact));
  const std::vector<ClassCandidate> candidates = Candidates();
  if (chosen) choice->set_cost(CostNow(candidates, serving));
  for (const ClassCandidate& worker : candidates) {
    v1::WorkerClasses* const classes = choice->add_workers();
    classes->set_worker_id(worker.worker_id);
    for (const ClassOffer& offer : worker.offers) {
      classes->add_classes(offer.numerics_class);
      classes->add_flops_per_second(offer.flops_per_second);
    }
  }
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
  if (worker.speed.known()) status->set_speed_others_share(worker.speed_others_share);
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
