// A model that is nothing but memory: each token depends, through every layer, on every token
// before it, and the right output can be computed in a few lines.
//
// A layer turns a value x at position p into a K/V entry, a digest of (layer, x, p), and hands on a
// digest of x and of all entries of positions 0 to p in order. The token at the end of a context is
// a digest of that and of the sampling parameters. So a block read or written wrongly anywhere, a
// context computed from the wrong tokens, or another sequence's sampling changes the output.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "proto/peer_messages.h"

namespace tutti::tests {

// 64 well mixed bits of two numbers.
inline uint64_t Digest(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b * 0x9E3779B97F4A7C15ull)) + 0x632BE59BD9B4E019ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline uint64_t OracleEmbed(TokenId token) { return Digest(1, static_cast<uint64_t>(token)); }

// The K/V entry of a layer for the value x at a position.
inline uint64_t OracleEntry(int64_t layer, uint64_t x, int64_t position) {
  return Digest(Digest(x, static_cast<uint64_t>(layer)), static_cast<uint64_t>(position));
}

// Folds the next entry of a context into the output of a layer; begin with x itself.
inline uint64_t OracleAttend(uint64_t sum, uint64_t entry) { return Digest(sum, entry); }

// Times a token stands in the prompt (0 or 1) and in the output, for penalties.
struct OracleCount {
  TokenId token = 0;
  bool in_prompt = false;
  int32_t in_output = 0;
};
// Does not depend on the order of `counts`.
uint64_t OracleCountsDigest(const std::vector<OracleCount>& counts);

// Whether these sampling parameters make a sequence depend on how often tokens stand in it.
bool OracleHasPenalties(const v1::SequenceSampling& sampling);
// With this top_k, one in eight contexts gives logits that are not numbers.
inline constexpr int32_t kOraclePoisonTopK = 666;

// With this one, the worker that samples goes down when it is to choose one of the first tokens:
// which, the seed decides.
inline constexpr int32_t kOracleKillerTopK = 667;
inline bool OracleKills(const v1::SequenceSampling& sampling, int32_t output_tokens) {
  return sampling.top_k() == kOracleKillerTopK &&
         output_tokens == static_cast<int32_t>(sampling.seed() % 4);
}

// The tokens that a grammar allows, ascending; nothing: there is none.
using OracleAllowed = std::optional<std::vector<TokenId>>;

// The tokens that may come after this output; nothing: the sampling parameters exclude none.
std::optional<std::vector<TokenId>> OracleDrawable(std::span<const TokenId> output,
                                                   const v1::SequenceSampling& sampling,
                                                   int32_t vocab_size,
                                                   const OracleAllowed& by_grammar = {});

// The token (with position and logprob) after a context of which `output` is the generated part,
// and for which the last layer's output is `digest`; token -1 when poisoned.
v1::SampledToken OracleSample(uint64_t digest, int32_t position, uint64_t counts_digest,
                              std::span<const TokenId> output, const v1::SequenceSampling& sampling,
                              int32_t vocab_size, const OracleAllowed& by_grammar = {});

// The last layer's output at the end of a context.
uint64_t OracleContext(std::span<const TokenId> tokens, int64_t num_layers);

// The right output: up to max_tokens tokens, ending with a stop token or with token -1 (poisoned).
std::vector<v1::SampledToken> OracleOutput(const std::vector<TokenId>& prompt, int32_t max_tokens,
                                           const std::vector<TokenId>& stop_token_ids,
                                           const v1::SequenceSampling& sampling, int64_t num_layers,
                                           int32_t vocab_size);

}  // namespace tutti::tests
