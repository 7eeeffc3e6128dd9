// One answer by a grammar: what it may go on with, and where it may end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"

namespace tutti::grammar {

// What it says is a function of the grammar and the bytes so far, whatever else the automaton does.
// A copy goes on by itself.  Thread: one, with all others of its automaton.
class Matcher {
 public:
  // At the beginning of a text.
  explicit Matcher(std::shared_ptr<Automaton> automaton);

  // Errors of Accept and AcceptToken, which leave all as it was: InvalidArgument with the position
  // for what the grammar does not allow here; ResourceExhausted as Automaton's, or for a text
  // longer than kTextBytesMax.
  absl::Status Accept(std::string_view bytes);
  // A token that ends answers is accepted where the text may end, and nothing behind it.
  absl::Status AcceptToken(TokenId id);

  // How many of `ids` would be accepted, one after the other; for drafts.
  absl::StatusOr<size_t> CountAccepted(std::span<const TokenId> ids);

  // Bit i % 32 of word i / 32: whether id i may come next. None may behind a token that ends
  // answers. Errors: ResourceExhausted as Automaton's.
  // REQUIRES: words.size() == TokenTrie::words()
  absl::Status Mask(std::span<uint32_t> words);
  // The only token that may come next; nothing when there are others, or none.
  absl::StatusOr<std::optional<TokenId>> ForcedToken();

  // Automaton::EndAt, for all operations of the automaton's matchers from now on.
  void EndAt(std::optional<Duration> end) { automaton_->EndAt(end); }

  // Whether the text may end here, or has ended.
  absl::StatusOr<bool> IsComplete();
  // Whether it can only end here.
  absl::StatusOr<bool> IsFinal();
  bool ended() const { return ended_; }

  // Takes back the last `count` calls of Accept and AcceptToken.
  // REQUIRES: there were so many
  void Rollback(size_t count);

  std::string_view text() const { return text_; }
  // Calls of Accept and AcceptToken that are not taken back.
  size_t accepted() const { return ends_.size(); }
  // Units of work of the last operation (kOperationWorkMax).
  int64_t work() const { return automaton_->work(); }

 private:
  // A place of the text, behind so many calls.
  struct Kept {
    size_t accepted = 0;
    Automaton::Place place;
  };

  // Begins an operation where the text is at its end; reads it again from the last place that is
  // kept where much was taken back.
  absl::Status Begin();
  absl::StatusOr<Automaton::StateId> Follow(Automaton::StateId from, std::string_view bytes,
                                            size_t at);
  void Keep(size_t accepted, Automaton::StateId state);
  size_t EndOf(size_t accepted) const { return accepted == 0 ? 0 : ends_[accepted - 1]; }

  const std::shared_ptr<Automaton> automaton_;
  std::string text_;
  std::vector<uint32_t> ends_;  // of what was accepted, in text_
  // By ascending places: the beginning, one in kPlaceBytes, and the last ones, each of them.
  std::vector<Kept> kept_;
  bool ended_ = false;
};

}  // namespace tutti::grammar
