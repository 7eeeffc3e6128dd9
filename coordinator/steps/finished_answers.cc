#include "coordinator/steps/finished_answers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {
namespace {

constexpr int32_t kEqualMin = PartIndex::kEqualMin;
constexpr int32_t kEqualMax = PartIndex::kEqualMax;
// Between two answers: no token.
constexpr TokenId kBorder = -1;
// A part with less room is full. An answer that goes on in the next part begins there with its last
// tokens once more, so that what follows is found by them.
constexpr int32_t kRoomMin = 2 * kEqualMax;
// Parts of owners that kept nothing for long that go in one turn.
constexpr int kDroppedInTurn = 8;

absl::uint128 NumberOf(const Hash128& hash) { return absl::MakeUint128(hash.high, hash.low); }

}  // namespace

FinishedAnswers::FinishedAnswers(const FinishedAnswersLimits& limits)
    : parts_max_(limits.bytes / kPartBytes),
      owner_parts_max_(limits.owner_bytes / kPartBytes),
      text_parts_max_(static_cast<size_t>(limits.text_parts)) {
  CHECK(parts_max_ > 0 && owner_parts_max_ > 0 && text_parts_max_ > 0);
}

FinishedAnswers::Key FinishedAnswers::KeyOf(const Request& request) {
  if (TUTTI_FAIL_POINT("coordinator.answers_of_others")) return {};
  return {NumberOf(request.owner), NumberOf(request.cache_domain)};
}

FinishedAnswers::Text* FinishedAnswers::Find(const Key& key) {
  const auto found = texts_.find(key);
  return found == texts_.end() ? nullptr : &found->second;
}

// ---- what is kept

void FinishedAnswers::Advance(Instant now) {
  now_ = now;
  for (int i = 0; i < kDroppedInTurn && !by_time_.empty(); ++i) {
    const Owner& owner = *by_time_.front();
    if (now - owner.kept_at < kAnswersKept) break;
    DropOldest(owner.parts.begin()->second);
  }
}

void FinishedAnswers::Keep(const Sequence& sequence) {
  if (sequence.request.owner == Hash128() || sequence.output_tokens() < kAnswerTokensMin) return;
  const Key key = KeyOf(sequence.request);
  const int32_t begin =
      std::max({0, sequence.prompt_tokens - kEqualMax, sequence.total() - kAnswerTokensMax});
  auto rest = std::span<const TokenId>(sequence.tokens).subspan(static_cast<size_t>(begin));
  Text* const had = Find(key);
  Part* part = had == nullptr ? nullptr : had->parts.back().get();
  if (part != nullptr && part->room() >= kRoomMin) {
    Append(std::span(&kBorder, 1), part);
  } else {
    part = OpenPart(key);
  }
  while (static_cast<int32_t>(rest.size()) > part->room()) {
    const auto count = static_cast<size_t>(part->room());
    Append(rest.first(count), part);
    rest = rest.subspan(count - kEqualMax);
    part = OpenPart(key);
  }
  Append(rest, part);
  Text* const text = Find(key);
  if (!std::exchange(text->waits, true)) text->place = unindexed_.insert(unindexed_.end(), text);
  text->owner->kept_at = now_;
  by_time_.splice(by_time_.end(), by_time_, text->owner->place);
}

void FinishedAnswers::Append(std::span<const TokenId> tokens, Part* part) {
  std::copy(tokens.begin(), tokens.end(), part->text.begin() + part->size);
  part->size += static_cast<int32_t>(tokens.size());
  tokens_ += static_cast<int64_t>(tokens.size());
}

FinishedAnswers::Part* FinishedAnswers::OpenPart(const Key& key) {
  MakeRoom(key);
  Text& text = texts_[key];
  if (text.parts.empty()) {
    text.key = key;
    text.owner = &owners_[key.first];
  }
  Owner& owner = *text.owner;
  if (owner.parts.empty()) {
    owner.id = key.first;
    owner.place = by_time_.insert(by_time_.end(), &owner);
  } else {
    by_rank_.erase(RankOf(owner));
  }
  Part* const part = text.parts.emplace_back(std::make_unique_for_overwrite<Part>()).get();
  part->number = ++last_number_;
  owner.parts.emplace(part->number, &text);
  by_rank_.emplace(RankOf(owner), &owner);
  ++parts_;
  return part;
}

void FinishedAnswers::MakeRoom(const Key& key) {
  Text* const text = Find(key);
  if (text != nullptr && text->parts.size() == text_parts_max_) return DropOldest(text);
  const auto found = owners_.find(key.first);
  Owner* const owner = found == owners_.end() ? nullptr : &found->second;
  const size_t own = owner == nullptr ? 0 : owner->parts.size();
  const bool own_full = static_cast<int64_t>(own) == owner_parts_max_;
  if (!own_full && parts_ < parts_max_) return;
  const Owner* const most = by_rank_.rbegin()->second;
  const Owner* const gives = own_full || own == most->parts.size() ? owner : most;
  DropOldest(gives->parts.begin()->second);
}

void FinishedAnswers::DropOldest(Text* text) {
  Owner* const owner = text->owner;
  by_rank_.erase(RankOf(*owner));
  const Part& part = *text->parts.front();
  tokens_ -= part.size;
  owner->parts.erase(part.number);
  text->parts.erase(text->parts.begin());
  if (text->first_unindexed > 0) --text->first_unindexed;
  --parts_;
  if (text->parts.empty()) {
    if (text->waits) unindexed_.erase(text->place);
    texts_.erase(Key(text->key));
  }
  if (!owner->parts.empty()) {
    by_rank_.emplace(RankOf(*owner), owner);
    return;
  }
  by_time_.erase(owner->place);
  owners_.erase(Id(owner->id));
}

// ---- what is guessed

void FinishedAnswers::BeginStep() {
  looks_left_ = kAnswerLooksInStep;
  ++step_;
  for (int32_t left = kAnswersIndexedInStep; left > 0 && !unindexed_.empty();) {
    Text* const text = unindexed_.front();
    Index(text, &left);
    if (left == 0) break;
    text->waits = false;
    unindexed_.pop_front();
  }
}

// At most *left tokens; less is left if all of it is indexed.
void FinishedAnswers::Index(Text* text, int32_t* left) {
  while (true) {
    Part& part = *text->parts[text->first_unindexed];
    const int32_t end = std::min(part.size, part.indexed + *left);
    *left -= end - part.indexed;
    for (int32_t place = std::exchange(part.indexed, end); place < end; ++place) {
      if (place < kEqualMin || part.text[static_cast<size_t>(place)] == kBorder) continue;
      part.index.Add(PartIndex::KeyOf(part.tokens(), place), place);
    }
    if (*left == 0 || text->first_unindexed + 1 == text->parts.size()) return;
    ++text->first_unindexed;
  }
}

FinishedAnswers::Turn* FinishedAnswers::TurnOf(const Sequence& sequence) {
  const auto pipeline = static_cast<size_t>(std::max(sequence.pipeline, 0));
  if (turns_.size() <= pipeline) turns_.resize(pipeline + 1);
  Turn& turn = turns_[pipeline];
  if (std::exchange(turn.step, step_) == step_) return &turn;
  turn.first = std::exchange(turn.left_over, 0);
  turn.asked = 0;
  return &turn;
}

int32_t FinishedAnswers::Guess(const Sequence& sequence, int32_t most,
                               std::vector<TokenId>* guesses) {
  if (sequence.request.owner == Hash128() || sequence.total() < kEqualMin) return 0;
  const Text* const text = Find(KeyOf(sequence.request));
  if (text == nullptr) return 0;
  Turn* const turn = TurnOf(sequence);
  if (turn->asked++ < turn->first) return 0;
  const auto tables = static_cast<int32_t>(text->parts.size());
  if (looks_left_ < tables + kLooksOfEntry) {
    if (turn->left_over == 0) turn->left_over = turn->asked - 1;
    return 0;
  }
  PlaceSearch search(sequence.tokens,
                     std::min((looks_left_ - tables) / kLooksOfEntry, PartIndex::kEntriesMax));
  for (const auto& part : text->parts) part->index.FetchAhead(search.key());
  const Part* found = nullptr;
  for (size_t i = text->parts.size(); i-- > 0;) {
    const Part& part = *text->parts[i];
    const int32_t longest = search.equal();
    const bool goes_on = search.Look(part.index, part.tokens(), 0);
    if (search.equal() > longest) found = &part;
    if (!goes_on) break;
  }
  looks_left_ -= tables + kLooksOfEntry * search.entries();
  if (found == nullptr) return 0;
  const auto follow = found->tokens().subspan(static_cast<size_t>(search.place()));
  const auto end = std::find(follow.begin(), follow.end(), kBorder);
  const int64_t count = std::min<int64_t>(most, end - follow.begin());
  guesses->insert(guesses->end(), follow.begin(), follow.begin() + count);
  return search.equal();
}

int64_t FinishedAnswers::unindexed() const {
  int64_t tokens = 0;
  for (const auto& [key, text] : texts_) {
    for (const auto& part : text.parts) tokens += part->size - part->indexed;
  }
  return tokens;
}

}  // namespace tutti::coordinator
