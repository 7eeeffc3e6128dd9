#include "grammar/grammar_testing.h"

#include "base/check.h"

namespace tutti::grammar {

std::shared_ptr<const TokenTrie> ByteTokens(const std::vector<std::string>& more,
                                            const std::vector<std::string>& special) {
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  bytes.insert(bytes.end(), more.begin(), more.end());
  std::vector<TokenId> special_ids;
  for (const std::string& text : special) {
    special_ids.push_back(static_cast<TokenId>(bytes.size()));
    bytes.push_back(text);
  }
  CHECK(bytes.size() <= kEndOfTest);
  const std::vector<std::string_view> views(bytes.begin(), bytes.end());
  const std::vector<TokenId> ends = {kEndOfTest};
  auto trie = TokenTrie::Create(views, ends, kEndOfTest + 1, special_ids);
  CHECK(trie.ok()) << trie.status();
  return std::make_shared<const TokenTrie>(*std::move(trie));
}

std::shared_ptr<const Grammar> MakeGrammar(SourceKind kind, std::string_view text,
                                           Whitespace whitespace, const Preface& preface) {
  auto grammar = Grammar::Create({kind, std::string(text), whitespace, preface});
  CHECK(grammar.ok()) << grammar.status();
  return *grammar;
}

std::shared_ptr<Automaton> MakeAutomaton(SourceKind kind, std::string_view text,
                                         const std::vector<std::string>& more_tokens) {
  return std::make_shared<Automaton>(MakeGrammar(kind, text), ByteTokens(more_tokens));
}

std::string Judge(SourceKind kind, std::string_view source, std::string_view text,
                  Whitespace whitespace, const Preface& preface) {
  Matcher matcher(
      std::make_shared<Automaton>(MakeGrammar(kind, source, whitespace, preface), ByteTokens()));
  if (!matcher.Accept(text).ok()) return "no";
  const auto complete = matcher.IsComplete();
  CHECK(complete.ok()) << complete.status();
  return *complete ? "yes" : "part";
}

std::string Refusal(SourceKind kind, std::string_view source) {
  const auto grammar = Grammar::Create({kind, std::string(source)});
  return grammar.ok() ? "" : std::string(grammar.status().message());
}

std::vector<TokenId> AllowedIds(Matcher* matcher) {
  std::vector<uint32_t> mask((kEndOfTest + 32) / 32);
  const absl::Status status = matcher->Mask(mask);
  CHECK(status.ok()) << status;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id <= kEndOfTest; ++id) {
    if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

}  // namespace tutti::grammar
