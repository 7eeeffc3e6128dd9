#include "coordinator/requests/admission.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/limits.h"
#include "coordinator/requests/not_serving.h"
#include "model/rotary.h"

namespace tutti::coordinator {
namespace {

absl::Status DeadlinePassed(const Sequence& sequence) {
  return absl::DeadlineExceededError(absl::StrCat("deadline passed after ",
                                                  sequence.output_tokens(), " of ",
                                                  sequence.request.max_tokens, " tokens"));
}

// The share of a client's time by which its deadline may come before ours.
constexpr int kDeadlineRounding = 64;

// The base of Versions::taking. Odd, so that of two targets that change none makes up for the
// other, however many there are.
constexpr uint64_t kTakingBase = 3;

}  // namespace

// ---- at the door

void Admission::HandleRequest(RequestArrived event, const absl::Status& serving, Instant now,
                              std::vector<Action>* actions) {
  // One is judged for all: they differ in their ids and seeds.
  std::vector<Request> outputs = std::move(event.others);
  outputs.insert(outputs.begin(), std::move(event.request));
  for (Request& output : outputs) {
    LowerDefaultLength(&output);
    output.cache_domain = DomainOfLength(output.cache_domain, output.prompt.size());
  }
  ObservePace(now);
  absl::Status status = CheckRequest(outputs.front(), serving, now);
  if (status.ok()) status = TakeOver(event, outputs, actions);
  if (status.ok()) {
    status = TakePlaces(outputs.front(), static_cast<int64_t>(outputs.size()), now, actions);
  }
  for (Request& output : outputs) {
    if (!status.ok()) {
      requests_.Refuse(output, status, actions);
    } else {
      Sequence* const added = requests_.Add(std::move(output), now);
      if (AnyCanHold(*added)) {
        queue_.Push(added);
      } else {
        stranded_.Add(added, now);  // until the pipeline that is awaited serves
      }
    }
  }
}

// Cached keys may be turned by a base that depends on the prompt's length: requests of different
// variants (model/rotary.h) share nothing.
Hash128 Admission::DomainOfLength(Hash128 domain, size_t prompt_tokens) const {
  const auto prompt = static_cast<int64_t>(prompt_tokens);
  domain.high += static_cast<uint64_t>(model::RopeVariant(options_->model.rope, prompt) - 1);
  return domain;
}

absl::Status Admission::CheckRequest(const Request& request, const absl::Status& serving,
                                     Instant now) const {
  if (draining_) return ShuttingDown();
  const int64_t tokens = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  if (request.prompt.empty() || request.max_tokens < 1 || tokens > MaxModelLen(*options_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt of ", request.prompt.size(), " tokens and max_tokens of ",
                     request.max_tokens, " do not fit the context of ", MaxModelLen(*options_)));
  }
  TUTTI_RETURN_IF_ERROR(serving);
  TUTTI_RETURN_IF_ERROR(suspects_.Check(request, request.prompt, now));
  TUTTI_RETURN_IF_ERROR(CheckNumerics(request));
  // The last token is sampled, never computed.
  if (const int64_t room = LargestPoolAwaited(); tokens - 1 > room) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt of ", request.prompt.size(), " tokens and max_tokens of ", request.max_tokens,
        " need room for ", tokens - 1, " tokens in the KV cache, which has ", room));
  }
  if (!targets_.front().scheduler->FitsPlan(tokens, request.sampling)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt of ", request.prompt.size(), " tokens, max_tokens of ", request.max_tokens,
        " and sampling make a step's plan for the workers larger than ", options_->plan_bytes_max,
        " bytes, the largest message between them"));
  }
  return CheckDeadline(request, request.prompt, now);
}

// Whether the fastest pipeline, were it idle, could compute the part of the prompt not cached there
// before the deadline. A pipeline whose pace has never been measured counts as fast enough.
absl::Status Admission::CheckDeadline(const Request& request, std::span<const TokenId> tokens,
                                      Instant now) const {
  if (request.deadline == kInstantNever) return absl::OkStatus();
  if (request.deadline <= now) {
    const auto ago = static_cast<int64_t>(Milliseconds(now - request.deadline));
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline passed ", ago, " ms before the request arrived"));
  }
  const double left = Seconds(request.deadline - now);
  const std::vector<int64_t> cached = CachedTokens(request, tokens);
  double soonest = std::numeric_limits<double>::infinity();
  if (LargestPool() == 0) soonest = 0;  // the pace of a pipeline that is awaited is not known
  for (size_t i = 0; i < targets_.size(); ++i) {
    const AdmissionTarget& target = targets_[i];
    if (!target.serving()) continue;
    const auto missing = static_cast<double>(static_cast<int64_t>(tokens.size()) - cached[i]);
    const double rate = target.rate->rows_per_second();
    soonest = std::min(soonest, rate > 0 ? missing / rate : 0);
  }
  if (soonest <= left) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline cannot be met: computing the prompt of ", tokens.size(), " tokens takes ",
      static_cast<int64_t>(soonest * 1e3), " ms at the pace measured, and ",
      static_cast<int64_t>(left * 1e3), " ms are left"));
}

// The tokens that each pipeline has cached, counted from the first; the last one is computed
// always.
std::vector<int64_t> Admission::CachedTokens(const Request& request,
                                             std::span<const TokenId> tokens) const {
  std::vector<int64_t> cached(targets_.size(), 0);
  for (const KvDirectory::Match& match :
       directory_->LongestPerPipeline(request.cache_domain, tokens.first(tokens.size() - 1))) {
    cached[match.pipeline.value()] = match.tokens;
  }
  return cached;
}

// KV slots of the pipeline that serves and has most; 0: none serves.
int64_t Admission::LargestPool() const {
  int64_t slots = 0;
  for (const AdmissionTarget& target : targets_) {
    slots = std::max(slots, target.scheduler->kv_slots());
  }
  return slots;
}

// The same, or where more was lost and may come back, that.
int64_t Admission::LargestPoolAwaited() const {
  const bool any_missing = std::any_of(targets_.begin(), targets_.end(),
                                       [](const AdmissionTarget& t) { return !t.serving(); });
  return std::max(LargestPool(), any_missing ? pool_awaited_ : 0);
}

// A length that the client did not ask for is lowered to the largest that fits.
void Admission::LowerDefaultLength(Request* request) const {
  if (!request->max_tokens_is_default) return;
  // The last token is sampled, never computed.
  const int64_t pool = LargestPool() > 0 ? LargestPool() : LargestPoolAwaited();
  const int64_t fits = pool - static_cast<int64_t>(request->prompt.size()) + 1;
  // Below the least length asked for it is refused.
  const int64_t least = std::max<int64_t>(fits, request->sampling.min_tokens());
  if (fits >= 1 && least < request->max_tokens) request->max_tokens = static_cast<int32_t>(least);
}

// ---- binding

bool Admission::BindWaiting(Instant now, std::vector<Action>* actions) {
  ObservePace(now);
  const bool bound = BindAsRoomAllows(now, actions);
  pace_.SetFull(queue_.size() > 0, now);
  return bound;
}

bool Admission::BindAsRoomAllows(Instant now, std::vector<Action>* actions) {
  bool bound = BindSuspects(now, actions);
  while (queue_.size() > 0) {
    const Versions versions = CurrentVersions();
    if (versions == no_room_) return bound;
    std::optional<size_t> target;
    Sequence* const sequence = FindNext(&target);
    if (sequence == nullptr) {
      no_room_ = versions;
      return bound;
    }
    // An answer that has begun is not given up for a forecast.
    absl::Status status = sequence->resumed
                              ? absl::OkStatus()
                              : CheckDeadline(sequence->request, sequence->tokens, now);
    if (status.ok()) status = suspects_.Check(sequence->request, sequence->prompt(), now);
    if (!status.ok()) {
      End(sequence, FinishCause::kError, std::move(status), actions);
      continue;
    }
    if (!target.has_value()) target = Route(*sequence);
    queue_.Pop(sequence);
    Bind(sequence, *target);
    bound = true;
  }
  return bound;
}

// The first in line, or where that has no room the first of the owner that has fewest; null: none
// of them has. A target: the sequence has to go there, room or not.
Sequence* Admission::FindNext(std::optional<size_t>* target) {
  Sequence* const front = queue_.Front();
  if (front == nullptr) return nullptr;
  Sequence* const fewest = queue_.FrontOfFewest();
  for (Sequence* const sequence : {front, fewest}) {
    FollowGroup(sequence);
    *target = TargetOfGroup(*sequence);
    if (target->has_value() || FindRoom(*sequence)) return sequence;
    if (fewest == front) break;
  }
  return nullptr;
}

Admission::Versions Admission::CurrentVersions() const {
  Versions versions{
      .queue = queue_.version(), .room = targets_.size(), .suspects = suspects_.version()};
  for (const AdmissionTarget& target : targets_) {
    versions.room += target.scheduler->room_version();
    versions.taking = versions.taking * kTakingBase + (target.takes_new() ? 2 : 1);
  }
  return versions;
}

bool Admission::CanBind() {
  const std::optional<size_t> for_suspect = suspects_.FindTarget();
  if (for_suspect.has_value() && !suspects_.IsTaken(*for_suspect)) return true;
  std::optional<size_t> target;
  return FindNext(&target) != nullptr;
}

// Several outputs of one request share the blocks of its prompt: they follow the first. None: the
// sequence is alone, the first of them, or longer than that pipeline can hold.
std::optional<size_t> Admission::TargetOfGroup(const Sequence& sequence) const {
  const Sequence* const first = requests_.Find(sequence.request.first_output);
  if (first == nullptr || first->pipeline < 0) return std::nullopt;
  // A default length is one that fitted when the output came; it may be larger for later ones.
  const auto target = static_cast<size_t>(first->pipeline);
  if (!suspects_.TakesOthers(target) || !targets_[target].CanHold(sequence)) return std::nullopt;
  return target;
}

// Fills loads_ with every pipeline as the sequence sees it. True: some pipeline has room for it.
bool Admission::FindRoom(const Sequence& sequence) {
  // Looking a long prompt up takes longer than all the rest, and is in vain where all is full.
  bool may_have_room = false;
  for (size_t i = 0; i < targets_.size(); ++i) {
    may_have_room |= suspects_.TakesOthers(i) && targets_[i].scheduler->MayHaveRoom(sequence);
  }
  if (!may_have_room) return false;
  const std::vector<int64_t> cached = CachedTokens(sequence.request, sequence.tokens);
  const int64_t block_size = options_->block_size;
  bool has_room = false;
  loads_.clear();
  for (const AdmissionTarget& target : targets_) {
    PipelineLoad& load = loads_.emplace_back();
    load.cached_tokens = cached[loads_.size() - 1];
    const Scheduler& scheduler = *target.scheduler;
    load.can_hold = suspects_.TakesOthers(loads_.size() - 1) && target.CanHold(sequence);
    load.has_room = load.can_hold && scheduler.HasRoom(sequence, load.cached_tokens);
    has_room |= load.has_room;
    if (!load.can_hold) continue;
    load.backlog_tokens = scheduler.backlog().tokens();
    load.running = scheduler.running();
    load.waiting = scheduler.waiting();
    const int64_t computed = sequence.total() - load.cached_tokens;
    load.evicted_tokens = scheduler.cache().EvictedTokens((computed + block_size - 1) / block_size);
  }
  return has_room;
}

// The cheapest pipeline, which need not be one that has room: some do best to wait for a place on a
// certain pipeline although others have room.  REQUIRES: FindRoom has just found room for it
size_t Admission::Route(const Sequence& sequence) const {
  const std::optional<size_t> chosen =
      ChoosePipeline(loads_, sequence.total(), options_->max_batch_tokens);
  CHECK(chosen.has_value());
  return *chosen;
}

void Admission::Bind(Sequence* sequence, size_t target) {
  sequence->pipeline = static_cast<int32_t>(target);
  sequence->stranded_since.reset();
  targets_[target].scheduler->Enqueue(sequence);
  steps_due_->Add(PipelineId(static_cast<uint32_t>(target)));
}

// ---- the end

// A call is cancelled when its deadline has passed, too, and which of both is seen first is chance.
// Clients' clocks run ahead of ours: gRPC rounds the time left up, by up to a hundredth.
bool Admission::IsDeadline(const Sequence& sequence, Instant now) {
  const Instant deadline = sequence.request.deadline;
  if (deadline == kInstantNever) return false;
  return deadline - now <= (deadline - sequence.arrived_at) / kDeadlineRounding;
}

void Admission::HandleCancellation(const RequestCancelled& event, Instant now,
                                   std::vector<Action>* actions) {
  Sequence* const sequence = requests_.Find(event.request);
  if (sequence == nullptr) return;  // ended meanwhile
  if (event.cause == CancelCause::kStopString) {
    return End(sequence, FinishCause::kStopString, absl::OkStatus(), actions);
  }
  if (event.cause == CancelCause::kTakenOver) {
    return End(sequence, FinishCause::kError, TakenOver(), actions);
  }
  absl::Status status = IsDeadline(*sequence, now) ? DeadlinePassed(*sequence)
                                                   : absl::CancelledError("the client left");
  End(sequence, FinishCause::kError, std::move(status), actions);
}

void Admission::ExpireDeadlines(Instant now, std::vector<Action>* actions) {
  if (requests_.next_deadline() > now) return;
  for (Sequence* sequence : requests_.Expired(now)) {
    End(sequence, FinishCause::kError, DeadlinePassed(*sequence), actions);
  }
}

void Admission::EndAll(std::vector<Action>* actions) {
  for (Sequence* sequence : requests_.All()) {
    End(sequence, FinishCause::kError, ShuttingDown(), actions);
  }
}

void Admission::End(Sequence* sequence, FinishCause cause, absl::Status status,
                    std::vector<Action>* actions) {
  Unbind(sequence);
  if (status.ok()) KeepAnswer(*sequence);
  recoveries_.Forget(sequence->recovery);
  requests_.Finish(sequence, cause, std::move(status), actions);
}

// For guesses of what comes after it, from those who may share its prefixes and take part in that.
void Admission::KeepAnswer(const Sequence& sequence) {
  if (answers_ == nullptr || !options_->enable_prefix_caching) return;
  if (sequence.request.guesses_max.value_or(options_->guesses_max) == 0) return;
  answers_->Keep(sequence);
}

// It gives back its place, in the queue or on a pipeline.
void Admission::Unbind(Sequence* sequence) {
  if (sequence->pipeline < 0) {
    if (!suspects_.Erase(*sequence) && !stranded_.Erase(*sequence)) queue_.Erase(sequence);
    if (sequence->charged > 0) queue_.ChargeActual(sequence);
    return;
  }
  const auto target = static_cast<uint32_t>(sequence->pipeline);
  if (suspects_.IsAlone(*sequence)) suspects_.LetOthersIn(target);
  targets_[target].scheduler->Remove(sequence);
  queue_.GiveBack(*sequence);
  queue_.ChargeActual(sequence);
  sequence->pipeline = -1;
  steps_due_->Add(PipelineId(target));
}

void Admission::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  status->set_waiting(static_cast<int32_t>(waiting()));
  requests_.FillCounters(status->mutable_requests());
  recoveries_.FillStatus(now, status);
}

}  // namespace tutti::coordinator
