// Guesses from answers that have ended: an owner's next answer often has long passages that one
// before it had. They are of all pipelines, and so are the guesses.
//
// Who may be guessed from what: an answer serves requests of the same owner (Request::owner) and of
// the same cache domain, as one that could be seen to serve others would tell them what it says. So
// each owner and domain has a text of its own: the outputs one behind the other, each with the last
// tokens of its prompt before it, by which a question that comes again finds its answer.
//
// A text is kept in parts of 2,048 tokens, which are indexed as PromptLookup's are: copied when an
// answer ends, indexed at most kAnswersIndexedInStep in a step. The searches of a step look at no
// more than kAnswerLooksInStep; those that found nothing left have their turn in the next
// of their pipeline.
//
// Memory: parts of 24 KiB, which is what bytes() counts, besides some hundred bytes for each text
// that has one, and each owner. No more than kAnswersBytesMax in all, kAnswersBytesOfOwner of one
// owner and kAnswerPartsMax parts of one text. Who wants more gives up its own oldest part. Where
// there is no memory left, the owner that has most gives its oldest, as long as it has more than
// who wants it: a flood of one drives out its own. Of several that have most it is the oldest part.
// An owner that has kept nothing for kAnswersKept has nothing any more.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/numeric/int128.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/limits.h"
#include "coordinator/request.h"
#include "coordinator/steps/guess_source.h"
#include "coordinator/steps/text_index.h"

namespace tutti::coordinator {

struct FinishedAnswersLimits {
  int64_t bytes = kAnswersBytesMax;
  int64_t owner_bytes = kAnswersBytesOfOwner;
  int32_t text_parts = kAnswerPartsMax;
};

class FinishedAnswers : public GuessSource {
 private:
  struct Part {
    PartIndex index;
    std::array<TokenId, PartIndex::kPartTokens> text;
    int32_t size = 0;     // tokens
    int32_t indexed = 0;  // of them
    uint64_t number = 0;  // in the order in which parts were begun

    std::span<const TokenId> tokens() const { return std::span(text).first(size); }
    int32_t room() const { return PartIndex::kPartTokens - size; }
  };

 public:
  static constexpr int64_t kPartBytes = sizeof(Part);

  // Others than the usual limits in tests only.
  explicit FinishedAnswers(const FinishedAnswersLimits& limits = {});
  FinishedAnswers(const FinishedAnswers&) = delete;
  FinishedAnswers& operator=(const FinishedAnswers&) = delete;

  // What is kept from now on is kept now; what has been kept for too long goes.
  void Advance(Instant now);
  // An answer that has ended well; nothing of one that is nobody's or too short.
  void Keep(const Sequence& sequence);

  void BeginStep() override;
  int32_t Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) override;
  void Forget(const Sequence&) override {}  // it knows none that runs

  int64_t bytes() const { return parts_ * kPartBytes; }
  int64_t tokens() const { return tokens_; }  // kept, counted twice where parts overlap
  // Tokens that are kept and not indexed yet. Walks over everything, for tests.
  int64_t unindexed() const;

 private:
  using Id = absl::uint128;  // of an owner, or a domain
  using Key = std::pair<Id, Id>;
  struct Owner;
  struct Text {  // has a part
    Key key;
    Owner* owner = nullptr;
    std::vector<std::unique_ptr<Part>> parts;  // the oldest first
    size_t first_unindexed = 0;                // the parts before it are indexed
    std::list<Text*>::iterator place;          // in unindexed_
    bool waits = false;                        // is there
  };
  struct Owner {  // has a part
    Id id;
    std::map<uint64_t, Text*> parts;    // by number
    Instant kept_at;                    // when it last kept an answer
    std::list<Owner*>::iterator place;  // in by_time_
  };
  // Of a pipeline's steps, as several pipelines ask.
  struct Turn {
    uint64_t step = 0;  // that it asked in last
    // Questions of this step so far, those before its first that has an answer, and the first that
    // is left for the next step; 0: none is.
    int32_t asked = 0, first = 0, left_over = 0;
  };
  // Parts, and behind that how old the oldest is: the last is the one that gives its oldest part.
  using Rank = std::pair<size_t, uint64_t>;

  static Key KeyOf(const Request& request);
  static Rank RankOf(const Owner& owner) {
    return {owner.parts.size(), ~owner.parts.begin()->first};
  }
  Text* Find(const Key& key);
  Part* OpenPart(const Key& key);
  void MakeRoom(const Key& key);
  void DropOldest(Text* text);
  void Append(std::span<const TokenId> tokens, Part* part);
  void Index(Text* text, int32_t* left);
  Turn* TurnOf(const Sequence& sequence);

  const int64_t parts_max_, owner_parts_max_;
  const size_t text_parts_max_;
  Instant now_;
  int64_t parts_ = 0;
  int64_t tokens_ = 0;
  uint64_t last_number_ = 0;
  int32_t looks_left_ = kAnswerLooksInStep;  // of this step
  uint64_t step_ = 0;                        // of any pipeline
  std::vector<Turn> turns_;                  // by pipeline
  // Both never walked in order.
  absl::node_hash_map<Key, Text> texts_;
  absl::node_hash_map<Id, Owner> owners_;
  std::map<Rank, Owner*> by_rank_;
  std::list<Owner*> by_time_;  // that they last kept an answer at
  std::list<Text*> unindexed_;
};

}  // namespace tutti::coordinator
