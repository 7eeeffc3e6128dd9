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

}  // namespace

GrammarAnswer::GrammarAnswer(GrammarPool* pool, std::shared_ptr<MaskedAnswer> answer)
    : pool_(pool), answer_(std::move(answer)) {}

GrammarAnswer::~GrammarAnswer() {
  pool_->Post(/*urgent=*/false,
              [maker = pool_->maker_.get(), answer = answer_] { maker->Forget(answer); });
}

void GrammarAnswer::Ask(std::span<const TokenId> output) {
  pool_->Ask(answer_, output.subspan(asked_));
  asked_ = output.size();
}

absl::StatusOr<std::span<const uint32_t>> GrammarAnswer::Take(const Progress& progress) {
  pool_->Wait(*answer_, progress);
  if (!answer_->status.ok()) return answer_->status;
  return std::span<const uint32_t>(answer_->mask);
}

GrammarPool::GrammarPool(Runs runs)
    : runs_(runs),
      maker_(std::make_unique<MaskMaker>(
          GrammarCache::Bounds{.bytes = kGrammarBytesMax, .grammars = kGrammarsKept})) {}

GrammarPool::~GrammarPool() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  posted_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status GrammarPool::SetVocabulary(v1::Vocabulary vocabulary, int32_t vocab_size) {
  TUTTI_RETURN_IF_ERROR(CheckVocabulary(vocabulary, vocab_size));
  // The same in every epoch, as a rule.
  if (vocab_size == vocab_size_ && SameVocabulary(vocabulary, vocabulary_)) return absl::OkStatus();
  vocabulary_ = std::move(vocabulary);
  vocab_size_ = vocab_size;
  if (runs_ == Runs::kOnThread && !thread_.joinable()) {
    thread_ = StartThread("the maker of masks", [this] { Run(); });
  }
  // By value: the next may come while this one is read.
  Post(/*urgent=*/true, [maker = maker_.get(), vocabulary = vocabulary_, vocab_size] {
    maker->SetVocabulary(vocabulary, vocab_size);
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
  Post(/*urgent=*/false, [maker = maker_.get(), answer] { maker->Begin(answer); });
  return std::make_shared<GrammarAnswer>(this, std::move(answer));
}

void GrammarPool::Ask(const std::shared_ptr<MaskedAnswer>& answer, std::span<const TokenId> more) {
  {
    const MutexLock lock(&mutex_);
    answer->asked = true;
  }
  Post(/*urgent=*/true,
       [this, answer, ids = std::vector<TokenId>(more.begin(), more.end())]() mutable {
         maker_->Make(answer, ids, [this] { CountMove(); });
         const MutexLock lock(&mutex_);
         answer->asked = false;
       });
}

void GrammarPool::Wait(const MaskedAnswer& answer, const GrammarAnswer::Progress& progress) {
  const MutexLock lock(&mutex_);
  uint64_t told = moves_;
  while (answer.asked) {
    done_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kMaskLookInterval);
    // Whoever watches the executor hears of the thread's moves, and of nothing if it is stuck.
    if (moves_ != told && progress) progress();
    told = moves_;
  }
}

void GrammarPool::Post(bool urgent, Job job) {
  // Before there is a vocabulary nothing can be made, and that is soon said.
  if (runs_ == Runs::kInline || !thread_.joinable()) return job();
  {
    const MutexLock lock(&mutex_);
    (urgent ? urgent_ : others_).push_back(std::move(job));
  }
  posted_.NotifyOne();
}

void GrammarPool::Run() {
  while (true) {
    Job job;
    {
      const MutexLock lock(&mutex_);
      while (!stop_ && urgent_.empty() && others_.empty()) posted_.Wait(&mutex_);
      if (stop_) return;
      std::deque<Job>& jobs = urgent_.empty() ? others_ : urgent_;
      job = std::move(jobs.front());
      jobs.pop_front();
    }
    job();
    CountMove();
  }
}

void GrammarPool::CountMove() {
  {
    const MutexLock lock(&mutex_);
    ++moves_;
  }
  done_.NotifyAll();
}

void GrammarPool::Write(metrics::Exposition* to) const { maker_->Write(to); }

}  // namespace tutti::worker
