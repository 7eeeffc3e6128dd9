#include "text/tiktoken_file.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/limits.h"
#include "text/split_pattern.h"
#include "text/text_break.h"

namespace tutti::text {
namespace {

constexpr std::string_view kFile = "qwen.tiktoken";
constexpr int kExtraTokens = 205;

absl::Status RefuseLine(size_t line, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(kFile), ":", line, ": ", Absl(why)));
}

// A line without its end. Takes it off `text`.
std::string_view PopLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

absl::Status ReadLine(std::string_view line, size_t number, TokenizerSpec* spec) {
  if (line.size() > kTiktokenLineBytesMax) {
    return RefuseLine(number,
                      absl::StrCat("has ", line.size(), " bytes, at most ", kTiktokenLineBytesMax));
  }
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return RefuseLine(number, "not a token and a rank");
  const std::string_view base64 = line.substr(0, space);
  std::string token;
  // The decoder of abseil is lenient; its result is encoded again to see whether all was read.
  if (!absl::Base64Unescape(Absl(base64), &token) || token.empty() ||
      absl::Base64Escape(token) != base64) {
    return RefuseLine(number, "the token is not base64");
  }
  const std::string_view digits = line.substr(space + 1);
  int64_t rank = 0;
  if (digits.find_first_not_of("0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(Absl(digits), &rank)) {
    return RefuseLine(number, "the rank is not a number");
  }
  if (rank != static_cast<int64_t>(spec->vocabulary.size())) {
    return RefuseLine(
        number, absl::StrCat("the rank is ", rank, ", expected is ", spec->vocabulary.size()));
  }
  if (rank >= kTokenIdMax - kExtraTokens - 3) {
    return RefuseLine(number, absl::StrCat("more than ", rank, " tokens are not supported"));
  }
  spec->ranks.push_back(static_cast<uint32_t>(rank));
  spec->vocabulary.emplace_back(std::move(token), rank);
  return absl::OkStatus();
}

void AddSpecialTokens(TokenizerSpec* spec) {
  auto next = static_cast<TokenId>(spec->vocabulary.size());
  const auto add = [&](std::string name) {
    spec->added_tokens.push_back({.content = std::move(name), .id = next, .special = true});
    return next++;
  };
  const TokenId end_of_text = add("<|endoftext|>");
  const TokenId turn_start = add("<|im_start|>");
  const TokenId turn_end = add("<|im_end|>");
  for (int i = 0; i < kExtraTokens; ++i) add(absl::StrCat("<|extra_", i, "|>"));
  spec->added_tokens.push_back(TextBreak());
  // The stop words of its chat format.
  spec->end_of_turn = {turn_end, turn_start, end_of_text};
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseQwenTiktoken(std::string_view text) {
  TokenizerSpec spec;
  spec.spelling = Spelling::kBytes;
  spec.file = std::string(kFile);
  spec.split_patterns.emplace_back(kQwen2SplitPattern);
  spec.normalization.nfc = true;
  spec.whole_words_first = true;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = PopLine(&text);
    if (!line.empty()) TUTTI_RETURN_IF_ERROR(ReadLine(line, number, &spec));
  }
  AddSpecialTokens(&spec);
  return spec;
}

}  // namespace tutti::text
