// The merges of vocabularies that give every token a rank instead of listing pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "text/byte_pairs.h"
#include "text/vocabulary.h"

namespace tutti::text {

// A token that no merge makes.
inline constexpr uint32_t kNeverMerged = UINT32_MAX;

// tiktoken and sentencepiece merge the neighbours that together spell the token of the lowest rank.
// That is to have a rule for every way to cut every token in two.
//
//   ranks [vocabulary.size()]: kNeverMerged for ids that no merge makes
//
// Errors: InvalidArgument for a token of more than kRankedTokenBytesMax bytes, or, when merging
// from characters, one that is not UTF-8.
absl::StatusOr<BytePairs::Rules> RulesFromRanks(const Vocabulary& vocabulary,
                                                const std::vector<uint32_t>& ranks,
                                                bool from_characters);

}  // namespace tutti::text
