// Text, token ids and tokenizer files from outside. The first byte says what the others are: 'j' a
// tokenizer.json, 'v' a vocab.json, a zero byte and a merges.txt, 't' a qwen.tiktoken, 's' a
// sentencepiece model, anything else text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/sentencepiece_file.h"
#include "text/stop_matcher.h"
#include "text/text_testing.h"
#include "text/tiktoken_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/vocab_and_merges.h"

namespace {

void TryFiles(absl::StatusOr<tutti::text::TokenizerSpec> spec) {
  if (!spec.ok()) return;
  const auto tokenizer = tutti::text::Tokenizer::Create(*std::move(spec));
  if (!tokenizer.ok()) return;
  const auto ids =
      (*tokenizer)
          ->EncodePrompt(
              "the <think> caf\u0065\u0301 <|end|>  12\n \u2581ab\u65e5\uff0c\ufdfa\u3000<s>");
  if (!ids.ok()) return;
  for (const tutti::TokenId id : *ids) CHECK((*tokenizer)->TokenText(id).has_value()) << id;
}

// The bytes as ids: text that was pushed out is valid for any ids, and stops hold back no
// more than they must.
void TryDecoding(const tutti::text::Tokenizer& tokenizer, std::string_view bytes) {
  tutti::text::Detokenizer detokenizer(&tokenizer, /*skip_special_tokens=*/false);
  auto stops =
      tutti::text::StopMatcher::Create({"stop", "\u00e9!", std::string(bytes.substr(0, 3)) + "x"},
                                       /*include_stop=*/false);
  std::string text, delivered;
  for (const char byte : bytes) {
    const std::string piece = detokenizer.Push(static_cast<unsigned char>(byte) + 50);
    CHECK(!tutti::text::FindInvalidUtf8(piece).has_value());
    text += piece;
    if (stops.ok()) delivered += stops->Push(piece).text;
  }
  const std::string last = detokenizer.Finish();
  text += last;
  if (!stops.ok()) return;
  delivered += stops->Push(last).text;
  delivered += stops->Finish();
  CHECK(stops->stopped() ? text.starts_with(delivered) : text == delivered);
}

void TryText(std::string_view text) {
  static const auto* const tokenizer = tutti::text::TinyTokenizer().release();
  TryDecoding(*tokenizer, text);
  const auto ids = tokenizer->Encode(text);
  CHECK(ids.ok() == !tutti::text::FindInvalidUtf8(text).has_value());
  if (!ids.ok()) return;
  std::string back;
  for (const tutti::TokenId id : *ids) {
    CHECK(!tokenizer->IsSpecial(id));
    back += *tokenizer->TokenText(id);
  }
  // Added tokens keep marks that follow them apart, so only text without any is compared.
  if (text.find("<think>") == std::string_view::npos)
    CHECK(back == tutti::text::NormalizeNfc(text));
  size_t cut = text.size() / 2;
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
  const std::vector<tutti::text::Segment> halves = {{std::string(text.substr(0, cut)), true},
                                                    {std::string(text.substr(cut)), false}};
  const std::vector<tutti::text::Segment> whole = {{std::string(text), false}};
  CHECK(tokenizer->EncodeSegments(halves).ok());
  if (text.find("<|end|>") == std::string_view::npos) {
    CHECK(*tokenizer->EncodeSegments(halves) == *ids);
    CHECK(*tokenizer->EncodeSegments(whole) == *ids);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const char kind = input[0];
  input.remove_prefix(1);
  if (kind == 'j') {
    TryFiles(tutti::text::ParseTokenizerJson(input));
  } else if (kind == 'v') {
    const size_t zero = input.find('\0');
    const std::string_view merges =
        zero == std::string_view::npos ? std::string_view() : input.substr(zero + 1);
    TryFiles(tutti::text::ParseVocabAndMerges(input.substr(0, zero), merges));
  } else if (kind == 't') {
    TryFiles(tutti::text::ParseQwenTiktoken(input));
  } else if (kind == 's') {
    TryFiles(tutti::text::ParseSentencepiece(input));
  } else {
    TryText(input);
  }
  return 0;
}
