// Helpers of the tests: what a grammar says of texts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"

namespace tutti::grammar {

// A token for each byte with the byte's number, some longer ones behind, special ones behind these,
// and the end 300 (not in the vocabulary's texts).
std::shared_ptr<const TokenTrie> ByteTokens(const std::vector<std::string>& more = {},
                                            const std::vector<std::string>& special = {});
inline constexpr TokenId kEndOfTest = 300;

// REQUIRES: the source is served
std::shared_ptr<const Grammar> MakeGrammar(SourceKind kind, std::string_view text,
                                           Whitespace whitespace = Whitespace::kCompact,
                                           const Preface& preface = {});
std::shared_ptr<Automaton> MakeAutomaton(SourceKind kind, std::string_view text,
                                         const std::vector<std::string>& more_tokens = {});

// "yes": a whole text; "part": the beginning of one; "no".
std::string Judge(SourceKind kind, std::string_view source, std::string_view text,
                  Whitespace whitespace = Whitespace::kCompact, const Preface& preface = {});

// Why a source is refused; empty when it is not.
std::string Refusal(SourceKind kind, std::string_view source);

// The ids of a mask.
std::vector<TokenId> AllowedIds(Matcher* matcher);

}  // namespace tutti::grammar
