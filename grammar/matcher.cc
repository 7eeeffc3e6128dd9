#include "grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {

Matcher::Matcher(std::shared_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {}

absl::Status Matcher::Begin() {
  automaton_->BeginOperation();
  if (generation_ == automaton_->generation()) return absl::OkStatus();
  states_.clear();
  generation_ = 0;
  TUTTI_ASSIGN_OR_RETURN(Automaton::StateId state, automaton_->Start());
  std::vector<Automaton::StateId> states = {state};
  uint32_t begin = 0;
  for (const uint32_t end : ends_) {
    // What was allowed once is allowed now.
    automaton_->ContinueOperation();
    TUTTI_ASSIGN_OR_RETURN(
        state, Follow(state, std::string_view(text_).substr(begin, end - begin), begin));
    states.push_back(state);
    begin = end;
  }
  automaton_->ContinueOperation();
  states_ = std::move(states);
  generation_ = automaton_->generation();
  return absl::OkStatus();
}

absl::StatusOr<Automaton::StateId> Matcher::Follow(Automaton::StateId from, std::string_view bytes,
                                                   size_t at) {
  const size_t begin = at;
  for (const char byte : bytes) {
    // A long text is as many operations as it would be as tokens.
    if ((at - begin) % kTokenBytesMax == kTokenBytesMax - 1) automaton_->ContinueOperation();
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
                         Follow(states_.back(), bytes, text_.size()));
  text_ += bytes;
  ends_.push_back(static_cast<uint32_t>(text_.size()));
  states_.push_back(state);
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
  TUTTI_ASSIGN_OR_RETURN(const std::span<const uint32_t> mask, automaton_->Mask(states_.back()));
  std::copy(mask.begin(), mask.end(), words.begin());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TokenId>> Matcher::ForcedToken() {
  if (ended_) return std::nullopt;
  TUTTI_RETURN_IF_ERROR(Begin());
  TUTTI_ASSIGN_OR_RETURN(const std::span<const uint32_t> mask, automaton_->Mask(states_.back()));
  std::optional<TokenId> only;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (only || !std::has_single_bit(mask[i])) return std::nullopt;
    only = static_cast<TokenId>(i * 32) + std::countr_zero(mask[i]);
  }
  return only;
}

absl::StatusOr<bool> Matcher::IsComplete() {
  TUTTI_RETURN_IF_ERROR(Begin());
  return automaton_->IsComplete(states_.back());
}

absl::StatusOr<bool> Matcher::IsFinal() {
  TUTTI_RETURN_IF_ERROR(Begin());
  if (!automaton_->IsComplete(states_.back())) return false;
  for (int byte = 0; byte < 256; ++byte) {
    TUTTI_ASSIGN_OR_RETURN(const Automaton::StateId next,
                           automaton_->Step(states_.back(), static_cast<uint8_t>(byte)));
    if (next != Automaton::kDead) return false;
  }
  return true;
}

void Matcher::Rollback(size_t count) {
  CHECK(count <= ends_.size());
  if (count == 0) return;
  ends_.resize(ends_.size() - count);
  text_.resize(ends_.empty() ? 0 : ends_.back());
  if (states_.size() > ends_.size() + 1) states_.resize(ends_.size() + 1);
  ended_ = false;
}

}  // namespace tutti::grammar
