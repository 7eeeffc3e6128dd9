#include "worker/sampling/grammar_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/thread.h"
#include "worker/limits.h"
#include "worker/sampling/mask_maker.h"

namespace tutti::worker {
namespace {

absl::Status CheckVocabulary(const v1::Vocabulary& vocabulary, int32_t vocab_size) {
  uint64_t bytes = 0;
  for (const uint32_t length : vocabulary.lengths()) bytes += length;
  if (vocabulary.lengths_size() > vocab_size || bytes != vocabulary.text().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a vocabulary of ", vocabulary.lengths_size(), " tokens and ", vocabulary.text().size(),
        " bytes, of which ", bytes, " are named, for a model with ", vocab_size, " ids"));
  }
  for (const auto* ids : {&vocabulary.end_ids(), &vocabulary.special_ids()}) {
    for (const TokenId id : *ids) {
      if (id >= 0 && id < (ids == &vocabulary.end_ids() ? vocab_size : vocabulary.lengths_size())) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", vocabulary.lengths_size(),
                                                     " tokens with id ", id,
                                                     " among its ends or special tokens"));
    }
  }
  return absl::OkStatus();
}

template <typename List>
bool SameList(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool SameVocabulary(const v1::Vocabulary& a, const v1::Vocabulary& b) {
  return a.text() == b.text() && SameList(a.lengths(), b.lengths()) &&
         SameList(a.end_ids(), b.end_ids()) && SameList(a.special_ids(), b.special_ids());
}

// Two makers share the bounds.
constexpr GrammarCache::Bounds kBoundsOfMaker = {.bytes = kGrammarBytesMax / 2,
                                                 .grammars = kGrammarsKept / 2};

MakerPatience QuickPatience(GrammarPool::Runs runs) {
  if (runs == GrammarPool::Runs::kInline) return {};
  return {.build_work = grammar::kQuickBuildWork,
          .mask = kQuickMaskTime,
          .mean_mask = kQuickMeanMaskTime,
          .turn = kQuickTurn};
}

}  // namespace

GrammarAnswer::GrammarAnswer(GrammarPool* pool, std::shared_ptr<MaskedAnswer> answer)
    : pool_(pool), answer_(std::move(answer)) {}

GrammarAnswer::~GrammarAnswer() { pool_->Forget(answer_); }

void GrammarAnswer::Ask(std::span<const TokenId> output) {
  if (asked_ == output.size()) return;  // it is made, or being made
  pool_->Ask(answer_, output.subspan(asked_.value_or(0)));
  asked_ = output.size();
}

bool GrammarAnswer::IsReady() const { return WaitUntil(Instant(), nullptr); }

bool GrammarAnswer::WaitUntil(Instant until, const Progress& progress) const {
  return pool_->Wait(answer_, until, progress).value_or(true);
}

void GrammarAnswer::CountLate() { pool_->late_.Add(); }

absl::StatusOr<std::span<const uint32_t>> GrammarAnswer::Take(const Progress& progress) {
  TUTTI_RETURN_IF_ERROR(pool_->Wait(answer_, kInstantNever, progress).status());
  if (!answer_->status.ok()) return answer_->status;
  return std::span<const uint32_t>(answer_->mask);
}

GrammarPool::Lane::Lane(std::string_view name, std::unique_ptr<MaskMaker> maker)
    : name(name), maker(std::move(maker)) {}

GrammarPool::Lane::~Lane() = default;

GrammarPool::GrammarPool(Runs runs)
    : runs_(runs),
      quick_("quick", std::make_unique<MaskMaker>(kBoundsOfMaker, QuickPatience(runs))),
      patient_("patient",
               std::make_unique<MaskMaker>(kBoundsOfMaker, MakerPatience{.turn = kPatientTurn})) {}

GrammarPool::~GrammarPool() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (Lane* const lane : {&quick_, &patient_}) {
    lane->posted.NotifyAll();
    if (lane->thread.joinable()) lane->thread.join();
  }
}

absl::Status GrammarPool::SetVocabulary(v1::Vocabulary vocabulary, int32_t vocab_size) {
  TUTTI_RETURN_IF_ERROR(CheckVocabulary(vocabulary, vocab_size));
  // The same in every epoch, as a rule.
  if (vocab_size == vocab_size_ && SameVocabulary(vocabulary, vocabulary_)) return absl::OkStatus();
  vocabulary_ = std::move(vocabulary);
  vocab_size_ = vocab_size;
  if (runs_ == Runs::kOnThread && !quick_.thread.joinable()) {
    quick_.thread = StartThread("the maker of masks", [this] { Run(&quick_); });
    patient_.thread = StartThread("the patient maker of masks", [this] {
      LowerPriority(grammar::kPatientNiceSteps);
      Run(&patient_);
    });
  }
  // By value: the next may come while this one is read.
  Post(&quick_, Order::kMasks, [this, vocabulary = vocabulary_, vocab_size] {
    quick_.maker->SetVocabulary(vocabulary, vocab_size);
  });
  return absl::OkStatus();
}

std::shared_ptr<GrammarAnswer> GrammarPool::Begin(v1::SequenceGrammar grammar,
                                                  const v1::SequenceSampling& sampling) {
  auto answer = std::make_shared<MaskedAnswer>();
  answer->ends_late = grammar.ends_late();
  answer->min_tokens = sampling.min_tokens();
  answer->end_ids.assign(sampling.end_ids().begin(), sampling.end_ids().end());
  answer->source = std::move(grammar);
  Post(&quick_, Order::kLater, [this, answer] { BeginOn(&quick_, answer); });
  return std::make_shared<GrammarAnswer>(this, std::move(answer));
}

void GrammarPool::Ask(const Answer& answer, std::span<const TokenId> more) {
  Lane* lane = nullptr;
  Order order = Order::kMasks;
  {
    const MutexLock lock(&mutex_);
    answer->asked = true;
    lane = LaneOf(*answer);
    if (answer->is_quick) order = Order::kFirst;
  }
  // One that is handed over meanwhile finds its ids at the other maker.
  Post(lane, order, [this, lane, answer, ids = std::vector<TokenId>(more.begin(), more.end())] {
    MakeOn(lane, answer, ids);
  });
}

void GrammarPool::Forget(const Answer& answer) {
  Lane* lane = nullptr;
  {
    const MutexLock lock(&mutex_);
    answer->forgotten = true;
    lane = LaneOf(*answer);
  }
  // Its memory does not wait for others' masks.
  Post(lane, Order::kMasks, [this, lane, answer] { ForgetOn(lane, answer); });
}

absl::StatusOr<bool> GrammarPool::Wait(const Answer& answer, Instant until,
                                       const GrammarAnswer::Progress& progress) {
  const MutexLock lock(&mutex_);
  uint64_t told = LaneOf(*answer)->moves;
  while (answer->asked) {
    const Lane& lane = *LaneOf(*answer);
    if (IsStuck(lane)) {
      return absl::InternalError(absl::StrCat("the ", std::string(lane.name),
                                              " maker of masks has not moved for ",
                                              kMaskMakerStuckAfter.count(), " s"));
    }
    const Instant now = std::chrono::steady_clock::now();
    if (now >= until) return false;
    done_.WaitUntil(&mutex_, std::min<Instant>(until, now + kMaskLookInterval));
    // Whoever watches the executor hears of the thread's moves, and of nothing if it is stuck.
    if (lane.moves != told && progress) progress();
    told = lane.moves;
  }
  return true;
}

bool GrammarPool::IsStuck(const Lane& lane) const {
  return lane.is_busy && std::chrono::steady_clock::now() - lane.moved_at > kMaskMakerStuckAfter;
}

GrammarPool::Lane* GrammarPool::LaneOf(const MaskedAnswer& answer) {
  return answer.handed_over ? &patient_ : &quick_;
}

// ---- the makers

void GrammarPool::BeginOn(Lane* lane, const Answer& answer) {
  {
    const MutexLock lock(&mutex_);
    if (answer->forgotten || LaneOf(*answer) != lane) return;  // begun there
  }
  if (!lane->maker->Begin(answer)) HandOver(answer);
}

void GrammarPool::MakeOn(Lane* lane, const Answer& answer, std::span<const TokenId> more) {
  Lane* now = nullptr;
  {
    const MutexLock lock(&mutex_);
    // However much of its output is still to be read.
    if (answer->forgotten) return;
    now = LaneOf(*answer);
  }
  if (now != lane) {
    return Post(now, Order::kMasks,
                [this, now, answer, ids = std::vector<TokenId>(more.begin(), more.end())] {
                  MakeOn(now, answer, ids);
                });
  }
  switch (lane->maker->Make(answer, more, [this, lane] { CountMove(lane); })) {
    case MaskMaker::Made::kDone: {
      const MutexLock lock(&mutex_);
      answer->is_quick = MaskMaker::IsQuick(*answer);
      answer->asked = false;
      return;
    }
    case MaskMaker::Made::kNot:
      HandOver(answer);
      now = &patient_;
      break;
    case MaskMaker::Made::kPart:
      break;
  }
  Post(now, Order::kMasks, [this, now, answer] { MakeOn(now, answer, {}); });
}

void GrammarPool::ForgetOn(Lane* lane, const Answer& answer) {
  Lane* now = nullptr;
  {
    const MutexLock lock(&mutex_);
    now = LaneOf(*answer);
  }
  if (now == lane) return lane->maker->Forget(answer);
  Post(now, Order::kMasks, [now, answer] { now->maker->Forget(answer); });
}

// From the quick maker to the patient one, which begins anew.
void GrammarPool::HandOver(const Answer& answer) {
  quick_.maker->Release(answer);
  handed_over_.Add();
  // First of all that is asked of it there.
  Post(&patient_, Order::kMasks, [this, answer, tokens = quick_.maker->vocabulary()] {
    patient_.maker->ShareVocabulary(tokens);
    patient_.maker->Begin(answer);
  });
  const MutexLock lock(&mutex_);
  answer->handed_over = true;
}

void GrammarPool::Post(Lane* lane, Order order, Job job) {
  // Before there is a vocabulary nothing can be made, and that is soon said.
  if (runs_ == Runs::kInline || !lane->thread.joinable()) return job();
  {
    const MutexLock lock(&mutex_);
    lane->jobs[static_cast<size_t>(order)].push_back(std::move(job));
  }
  lane->posted.NotifyOne();
}

void GrammarPool::Run(Lane* lane) {
  while (true) {
    Job job;
    {
      const MutexLock lock(&mutex_);
      lane->is_busy = false;
      const auto has_some = [](const std::deque<Job>& jobs) { return !jobs.empty(); };
      auto jobs = lane->jobs.end();
      while (!stop_ && (jobs = std::ranges::find_if(lane->jobs, has_some)) == lane->jobs.end()) {
        lane->posted.Wait(&mutex_);
      }
      if (stop_) return;
      job = std::move(jobs->front());
      jobs->pop_front();
      lane->is_busy = true;
      lane->moved_at = std::chrono::steady_clock::now();
    }
    job();
    CountMove(lane);
  }
}

void GrammarPool::CountMove(Lane* lane) {
  {
    const MutexLock lock(&mutex_);
    ++lane->moves;
    lane->moved_at = std::chrono::steady_clock::now();
  }
  done_.NotifyAll();
}

void GrammarPool::Write(metrics::Exposition* to) const {
  const MaskMaker::Named makers[] = {{quick_.name, quick_.maker.get()},
                                     {patient_.name, patient_.maker.get()}};
  MaskMaker::Write(makers, to);
  to->Single("tutti_worker_late_masks_total", metrics::Kind::kCounter,
             "Rows that a step computed and did not draw, because their masks were not there yet.",
             late_.value());
  to->Single("tutti_worker_patient_answers_total", metrics::Kind::kCounter,
             "Answers whose grammars or masks take so long that the patient maker has them.",
             handed_over_.value());
}

}  // namespace tutti::worker
