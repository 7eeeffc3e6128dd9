#include "tests/support/sim_grammars.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "grammar/matcher.h"
#include "worker/sampling/grammar_cache.h"
#include "worker/sampling/toy_vocabulary_testing.h"

namespace tutti::tests {
namespace {

std::shared_ptr<const grammar::TokenTrie> TrieOf(int32_t size) {
  static auto* const known = new std::map<int32_t, std::shared_ptr<const grammar::TokenTrie>>();
  auto& trie = (*known)[size];
  if (trie != nullptr) return trie;
  std::vector<std::string> texts;
  for (TokenId id = 0; id < size; ++id) texts.push_back(worker::ToyText(id));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<TokenId> ends = {worker::kToyEnd};
  trie = std::make_shared<const grammar::TokenTrie>(*grammar::TokenTrie::Create(views, ends, size));
  return trie;
}

}  // namespace

std::shared_ptr<const v1::Vocabulary> SimVocabulary(int32_t size) {
  return std::make_shared<const v1::Vocabulary>(worker::ToyVocabulary(size));
}

void DrawSimGrammar(Random* random, coordinator::Request* request) {
  if (!random->Chance(0.25)) return;
  v1::SequenceSampling& sampling = request->sampling;
  // Its limits alone, so that they never leave nothing.
  sampling.clear_allowed_ids();
  sampling.clear_banned();
  sampling.clear_end_ids();
  worker::SetToyGrammar(static_cast<int>(random->Between(0, 3)), &sampling);
  sampling.mutable_grammar()->set_ends_late(random->Chance(0.3));
  std::vector<TokenId>& stops = request->stop_token_ids;
  stops.insert(std::lower_bound(stops.begin(), stops.end(), worker::kToyEnd), worker::kToyEnd);
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  sampling.mutable_end_ids()->Assign(stops.begin(), stops.end());
}

std::optional<std::vector<TokenId>> SimAllowed(std::span<const TokenId> output,
                                               const v1::SequenceSampling& sampling,
                                               int32_t vocab_size) {
  if (!sampling.has_grammar()) return std::nullopt;
  const auto trie = TrieOf(vocab_size);
  grammar::Matcher matcher(std::make_shared<grammar::Automaton>(
      *grammar::Grammar::Create(*worker::GrammarSourceOf(sampling.grammar())), trie));
  for (const TokenId id : output) {
    const absl::Status taken = matcher.AcceptToken(id);
    CHECK(taken.ok()) << taken;
  }
  std::vector<uint32_t> mask(trie->words());
  const absl::Status made = matcher.Mask(mask);
  CHECK(made.ok()) << made;
  const bool may_end = *matcher.IsComplete();
  const auto ends = [&](TokenId id) {
    return std::count(sampling.end_ids().begin(), sampling.end_ids().end(), id) > 0;
  };
  std::vector<TokenId> all, going_on;
  for (TokenId id = 0; id < vocab_size; ++id) {
    const auto place = static_cast<size_t>(id);
    const bool allowed = (mask[place / 32] >> (place % 32) & 1) != 0 || (may_end && ends(id));
    if (!allowed) continue;
    all.push_back(id);
    const bool too_early = ends(id) && output.size() < sampling.min_tokens();
    const bool too_late = id == worker::kToyEnd && sampling.grammar().ends_late();
    if (!too_early && !too_late) going_on.push_back(id);
  }
  return going_on.empty() ? all : going_on;
}

}  // namespace tutti::tests
