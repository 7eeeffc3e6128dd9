// The grammars and automata that answers are sampled by: equal sources share one, and those that no
// answer uses any more are kept while there is room.
//
// Nothing of it is more than remembered: an automaton that had to make room is made again, and says
// the same.
//
// Thread: one, that of the pool (grammar_pool.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/token_trie.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

class GrammarCache {
 public:
  // One grammar. Who holds it keeps the grammar, not its automaton.
  class Entry {
   public:
    // Grows when the automaton was let go of: matchers of before belong to none that is counted.
    uint64_t generation() const { return generation_; }
    const grammar::TokenTrie& tokens() const { return *tokens_; }
    const v1::SequenceGrammar& source() const { return source_; }

   private:
    friend class GrammarCache;
    v1::SequenceGrammar source_;
    std::shared_ptr<const grammar::Grammar> grammar_;
    std::shared_ptr<const grammar::TokenTrie> tokens_;
    std::shared_ptr<grammar::Automaton> automaton_;  // null: let go of
    int64_t grammar_bytes_ = 0;
    int64_t counted_ = 0;  // its bytes, in those of the cache
    uint64_t generation_ = 0;
    uint64_t used_ = 0;  // when, last
  };

  // Bounds of all automata, and of grammars that nobody holds, after Trim.
  struct Bounds {
    int64_t bytes = 0;
    int64_t grammars = 0;
  };
  explicit GrammarCache(const Bounds& bounds) : bounds_(bounds) {}

  // Forgets all: entries that are held stay with the vocabulary that they were made for.
  void SetVocabulary(std::shared_ptr<const grammar::TokenTrie> tokens);
  bool has_vocabulary() const { return tokens_ != nullptr; }
  const std::shared_ptr<const grammar::TokenTrie>& tokens() const { return tokens_; }

  // The entry of this source, made where there is none; at most some 100 ms, or ABORTED where that
  // takes more than `work_max` units.
  // Errors: those of Grammar::Create; FAILED_PRECONDITION without a vocabulary.
  absl::StatusOr<std::shared_ptr<Entry>> Find(const v1::SequenceGrammar& source,
                                              int64_t work_max = grammar::kBuildWorkMax);

  std::shared_ptr<grammar::Automaton> AutomatonOf(Entry* entry);

  // The automaton of `in_use` has grown: lets go of what was used longest ago until the rest is
  // within the bounds, of grammars that nobody holds first, then of automata, but for that one.
  // Whether one was let go of whose grammar is held: matchers hold it still.
  bool Trim(Entry* in_use);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  // Of automata and grammars, as far as they have been counted.
  int64_t bytes() const { return bytes_; }

 private:
  using Entries = absl::flat_hash_map<std::string, std::shared_ptr<Entry>>;

  void Count(Entry* entry);
  bool IsFull() const { return bytes_ > bounds_.bytes || size() > bounds_.grammars; }

  const Bounds bounds_;
  std::shared_ptr<const grammar::TokenTrie> tokens_;
  Entries entries_;  // by the digest of their source
  uint64_t now_ = 0;
  int64_t bytes_ = 0;
};

// As the engine for grammars takes it. INVALID_ARGUMENT for a kind that is none.
absl::StatusOr<grammar::GrammarSource> GrammarSourceOf(const v1::SequenceGrammar& source);

}  // namespace tutti::worker
