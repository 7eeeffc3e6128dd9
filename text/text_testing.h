// Support for tests of the text side: a tokenizer small enough to reason about.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// The repository, from TUTTI_SOURCE_DIR.
std::string SourceDir();

// Ids of TinySpec: byte b is token b; then these.
inline constexpr TokenId kTinyTh = 256, kTinyThe = 257, kTinySpaceThe = 258, kTinyHe = 259;
inline constexpr TokenId kTinyEnd = 300;    // <|end|>, special
inline constexpr TokenId kTinyThink = 301;  // <think>, not special
inline constexpr TokenId kTinyEndOf = 302;  // <|end|>of, special: longer than <|end|>

TokenizerSpec TinySpec();

std::unique_ptr<Tokenizer> TinyTokenizer();

// TinySpec as a tokenizer.json.
nlohmann::json TinyTokenizerJson();

std::string MessageOf(const absl::Status& status);

// Fails the test when `spec` is an error or makes no tokenizer.
std::unique_ptr<Tokenizer> BuildTokenizer(absl::StatusOr<TokenizerSpec> spec);

// The ids of a user's text, and of the template's.
std::vector<TokenId> EncodeUser(const Tokenizer& tokenizer, std::string_view text);
std::vector<TokenId> EncodeTrusted(const Tokenizer& tokenizer, const std::string& text);

// The text of a whole output.
std::string DecodeAll(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);

}  // namespace tutti::text
