#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {

Matcher::Matcher(std::shared_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {}

absl::Status Matcher::Begin() {
  TUTTI_RETURN_IF_ERROR(automaton_->BeginOperation());
  if (kept_.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const Automaton::StateId start, automaton_->Start());
    Keep(0, start);
  }
  while (kept_.back().accepted < ends_.size()) {
    // What was allowed once is allowed now.
    const size_t accepted = kept_.back().accepted;
    const size_t begin = EndOf(accepted);
    TUTTI_ASSIGN_OR_RETURN(
        const Automaton::StateId state,
        Follow(kept_.back().place.state(),
               std::string_view(text_).substr(begin, EndOf(accepted + 1) - begin), begin));
    Keep(accepted + 1, state);
    TUTTI_RETURN_IF_ERROR(automaton_->BeginOperation());
  }
  return absl::OkStatus();
}

void Matcher::Keep(size_t accepted, Automaton::StateId state) {
  kept_.push_back({accepted, Automaton::Place(automaton_.get(), state)});
  // The one that is no longer among the last goes, unless there is none near before it.
  if (kept_.size() < kLastPlaces + 2) return;
  const size_t leaving = kept_.size() - kLastPlaces - 1;
  if (EndOf(kept_[leaving].accepted) - EndOf(kept_[leaving - 1].accepted) < kPlaceBytes) {
    kept_.erase(kept_.begin() + static_cast<int64_t>(leaving));
  }
}

absl::StatusOr<Automaton::StateId> Matcher::Follow(Automaton::StateId from, std::string_view bytes,
                                                   size_t at) {
  const size_t begin = at;
  for (const char byte : bytes) {
    // A long text is as many operations as it would be as tokens.
    if ((at - begin) % kTokenBytesMax == kTokenBytesMax - 1) {
      const Automaton::Place place(automaton_.get(), from);
      TUTTI_RETURN_IF_ERROR(automaton_->BeginOperation());
      from = place.state();
    }
    TUTTI_ASSIGN_OR_RETURN(from, automaton_->Step(from, static_cast<uint8_t>(byte)));
    if (from == Automaton::kDead) {
      return absl::InvalidArgumentError(
          Concat("the grammar does not allow byte ", at, " of the text"));
    }
    ++at;
  }
  return from;
}

absl::Status Matcher::Accept(std::string_view bytes) {
  if (ended_) return absl::InvalidArgumentError("the text has ended");
  if (bytes.size() > kTextBytesMax - text_.size()) {
    return absl::ResourceExhaustedError(Concat("a text of more than ", kTextBytesMax, " bytes"));
  }
  TUTTI_RETURN_IF_ERROR(Begin());
  TUTTI_ASSIGN_OR_RETURN(const Automaton::StateId state,
                         Follow(kept_.back().place.state(), bytes, text_.size()));
  text_ += bytes;
  ends_.push_back(static_cast<uint32_t>(text_.size()));
  Keep(ends_.size(), state);
  return absl::OkStatus();
}

absl::Status Matcher::AcceptToken(TokenId id) {
  if (automaton_->tokens().IsEnd(id)) {
    TUTTI_ASSIGN_OR_RETURN(const bool complete, IsComplete());
    if (!complete || ended_) {
      return absl::InvalidArgumentError(Concat("the text may not end at byte ", text_.size()));
    }
    TUTTI_RETURN_IF_ERROR(Accept(""));
    ended_ = true;
    return absl::OkStatus();
  }
  const std::string_view bytes = automaton_->tokens().Bytes(id);
  if (bytes.empty()) {
    return absl::InvalidArgumentError(Concat("token ", id, " stands for no text"));
  }
  return Accept(bytes);
}

absl::StatusOr<size_t> Matcher::CountAccepted(std::span<const TokenId> ids) {
  size_t count = 0;
  absl::Status status;
  while (count < ids.size() && (status = AcceptToken(ids[count])).ok()) ++count;
  Rollback(count);
  if (!status.ok() && !absl::IsInvalidArgument(status)) return status;
  return count;
}

absl::Status Matcher::Mask(std::span<uint32_t> words) {
  CHECK(words.size() == automaton_->tokens().words());
  if (ended_) {
    std::fill(words.begin(), words.end(), 0);
    return absl::OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(Begin());
  TUTTI_ASSIGN_OR_RETURN(const TokenMask* const mask, automaton_->Mask(kept_.back().place.state()));
  mask->CopyTo(words);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TokenId>> Matcher::ForcedToken() {
  if (ended_) return std::nullopt;
  TUTTI_RETURN_IF_ERROR(Begin());
  TUTTI_ASSIGN_OR_RETURN(const TokenMask* const mask, automaton_->Mask(kept_.back().place.state()));
  return mask->Only();
}

absl::StatusOr<bool> Matcher::IsComplete() {
  TUTTI_RETURN_IF_ERROR(Begin());
  return automaton_->IsComplete(kept_.back().place.state());
}

absl::StatusOr<bool> Matcher::IsFinal() {
  TUTTI_RETURN_IF_ERROR(Begin());
  const Automaton::StateId state = kept_.back().place.state();
  if (!automaton_->IsComplete(state)) return false;
  for (int byte = 0; byte < 256; ++byte) {
    TUTTI_ASSIGN_OR_RETURN(const Automaton::StateId next,
                           automaton_->Step(state, static_cast<uint8_t>(byte)));
    if (next != Automaton::kDead) return false;
  }
  return true;
}

void Matcher::Rollback(size_t count) {
  CHECK(count <= ends_.size());
  if (count == 0) return;
  ends_.resize(ends_.size() - count);
  text_.resize(ends_.empty() ? 0 : ends_.back());
  while (!kept_.empty() && kept_.back().accepted > ends_.size()) kept_.pop_back();
  ended_ = false;
}

}  // namespace tutti::grammar
