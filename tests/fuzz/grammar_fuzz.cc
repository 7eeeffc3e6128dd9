// A source of a grammar from outside, and a text. The first byte says the kind of the source and
// whether there is a preface; what stands behind the first zero is the text. Refused with words, or
// a grammar whose masks and matcher agree about every byte of the text.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/matcher.h"

namespace {

using namespace tutti::grammar;  // NOLINT

constexpr tutti::TokenId kEnd = 256;

std::shared_ptr<const TokenTrie> Bytes() {
  static const auto* const kTrie = [] {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    const std::vector<std::string_view> views(bytes.begin(), bytes.end());
    const std::vector<tutti::TokenId> ends = {kEnd};
    return new std::shared_ptr<const TokenTrie>(
        std::make_shared<const TokenTrie>(*TokenTrie::Create(views, ends, kEnd + 1)));
  }();
  return *kTrie;
}

void Follow(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(std::make_shared<Automaton>(grammar, Bytes()));
  std::vector<uint32_t> mask(Bytes()->words());
  for (const char c : text) {
    const absl::Status masked = matcher.Mask(mask);
    CHECK(matcher.work() <= 2 * kOperationWorkMax) << matcher.work();
    if (!masked.ok()) {
      CHECK(absl::IsResourceExhausted(masked)) << masked;
      return;
    }
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0xFF) return;  // begins what stands for a special token; there is none here
    const bool allowed = (mask[byte / 32] >> (byte % 32) & 1) != 0;
    const absl::Status accepted = matcher.Accept(std::string_view(&c, 1));
    CHECK(accepted.ok() == allowed || absl::IsResourceExhausted(accepted)) << accepted;
    bool any = !grammar->specials().empty();
    for (const uint32_t word : mask) any |= word != 0;
    CHECK(any) << "a text that leads nowhere: " << matcher.text();
    if (!accepted.ok()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  GrammarSource source;
  source.kind = static_cast<SourceKind>(data[0] % 5);
  if (data[0] >= 128) source.whitespace = Whitespace::kBounded;
  if ((data[0] & 0x40) != 0) source.preface.close = "</t>";
  if ((data[0] & 0x60) == 0x60) source.preface.open = "<t>";
  const size_t zero = all.find('\0');
  source.text = std::string(all.substr(0, zero));
  const auto grammar = Grammar::Create(source);
  if (!grammar.ok()) {
    CHECK(!grammar.status().message().empty());
    CHECK(absl::IsInvalidArgument(grammar.status()) || absl::IsResourceExhausted(grammar.status()));
    return 0;
  }
  if (zero != std::string_view::npos) Follow(*grammar, all.substr(zero + 1));
  return 0;
}
