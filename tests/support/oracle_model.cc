#include "tests/support/oracle_model.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "tests/support/sim_grammars.h"

namespace tutti::tests {

uint64_t OracleCountsDigest(const std::vector<OracleCount>& counts) {
  uint64_t sum = 0;
  for (const OracleCount& count : counts) {
    const uint64_t times = 2 * static_cast<uint64_t>(count.in_output) + (count.in_prompt ? 1 : 0);
    sum += Digest(static_cast<uint64_t>(count.token) + 1, times);
  }
  return sum;
}

bool OracleHasPenalties(const v1::SequenceSampling& sampling) {
  return sampling.presence_penalty() != 0;
}

std::optional<std::vector<TokenId>> OracleDrawable(std::span<const TokenId> output,
                                                   const v1::SequenceSampling& sampling,
                                                   int32_t vocab_size,
                                                   const OracleAllowed& by_grammar) {
  // A grammar has seen to the ends.
  const bool too_short = !by_grammar.has_value() && output.size() < sampling.min_tokens();
  if (!too_short && !by_grammar.has_value() && sampling.banned().empty() &&
      sampling.allowed_ids().empty()) {
    return {};
  }
  std::vector<TokenId> drawable;
  for (TokenId id = 0; id < vocab_size; ++id) {
    const auto has = [id](const auto& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (!sampling.allowed_ids().empty() && !has(sampling.allowed_ids())) continue;
    if (too_short && has(sampling.end_ids())) continue;
    if (by_grammar.has_value() && !has(*by_grammar)) continue;
    std::vector<TokenId> with(output.begin(), output.end());
    with.push_back(id);
    bool banned = false;
    for (const v1::BannedTokens& row : sampling.banned()) {
      const std::vector<TokenId> ids(row.ids().begin(), row.ids().end());
      banned |= with.size() >= ids.size() && std::equal(ids.rbegin(), ids.rend(), with.rbegin());
    }
    if (!banned) drawable.push_back(id);
  }
  return drawable;
}

v1::SampledToken OracleSample(uint64_t digest, int32_t position, uint64_t counts_digest,
                              std::span<const TokenId> output, const v1::SequenceSampling& sampling,
                              int32_t vocab_size, const OracleAllowed& by_grammar) {
  if (OracleHasPenalties(sampling)) digest = Digest(digest, counts_digest);
  if (sampling.temperature() > 0) digest = Digest(digest, RandomBits(sampling.seed(), position));
  v1::SampledToken sampled;
  sampled.set_position(position);
  sampled.set_token(static_cast<int32_t>(digest % static_cast<uint64_t>(vocab_size)));
  sampled.set_logprob(-static_cast<float>(digest >> 54));
  if (const auto drawable = OracleDrawable(output, sampling, vocab_size, by_grammar)) {
    sampled.set_token(drawable->empty() ? -1 : (*drawable)[digest % drawable->size()]);
  }
  if (sampling.top_k() == kOraclePoisonTopK && (digest >> 32) % 8 == 0) sampled.set_token(-1);
  return sampled;
}

namespace {

std::vector<OracleCount> Count(const std::vector<TokenId>& tokens, size_t prompt_tokens) {
  std::map<TokenId, OracleCount> counts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    OracleCount& count = counts[tokens[i]];
    count.token = tokens[i];
    if (i < prompt_tokens) {
      count.in_prompt = true;
    } else {
      ++count.in_output;
    }
  }
  std::vector<OracleCount> list;
  for (const auto& [token, count] : counts) list.push_back(count);
  return list;
}

// The entries of a context, and the last layer's output at its end.
class Context {
 public:
  explicit Context(int64_t num_layers) : entries_(static_cast<size_t>(num_layers)) {}

  uint64_t Add(TokenId token) {
    uint64_t x = OracleEmbed(token);
    for (size_t layer = 0; layer < entries_.size(); ++layer) {
      std::vector<uint64_t>& entries = entries_[layer];
      entries.push_back(
          OracleEntry(static_cast<int64_t>(layer), x, static_cast<int64_t>(entries.size())));
      for (const uint64_t entry : entries) x = OracleAttend(x, entry);
    }
    return x;
  }

 private:
  std::vector<std::vector<uint64_t>> entries_;  // [layers][positions]
};

}  // namespace

uint64_t OracleContext(std::span<const TokenId> tokens, int64_t num_layers) {
  Context context(num_layers);
  uint64_t x = 0;
  for (const TokenId token : tokens) x = context.Add(token);
  return x;
}

std::vector<v1::SampledToken> OracleOutput(const std::vector<TokenId>& prompt, int32_t max_tokens,
                                           const std::vector<TokenId>& stop_token_ids,
                                           const v1::SequenceSampling& sampling, int64_t num_layers,
                                           int32_t vocab_size) {
  std::vector<TokenId> tokens = prompt;
  Context context(num_layers);
  std::vector<v1::SampledToken> output;
  for (size_t position = 0;; ++position) {
    const uint64_t x = context.Add(tokens[position]);
    if (position + 1 < tokens.size()) continue;
    const auto so_far = std::span(tokens).subspan(prompt.size());
    output.push_back(OracleSample(x, static_cast<int32_t>(tokens.size()),
                                  OracleCountsDigest(Count(tokens, prompt.size())), so_far,
                                  sampling, vocab_size, SimAllowed(so_far, sampling, vocab_size)));
    const TokenId token = output.back().token();
    const bool stops = std::binary_search(stop_token_ids.begin(), stop_token_ids.end(), token);
    if (token < 0 || stops || output.size() == static_cast<size_t>(max_tokens)) return output;
    tokens.push_back(token);
  }
}

}  // namespace tutti::tests
