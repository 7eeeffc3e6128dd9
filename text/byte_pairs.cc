#include "text/byte_pairs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

#include "text/absl_text.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

// Up to this many bytes, looking at all pairs for each merge beats a queue. Words are rarely
// longer.
constexpr size_t kShortBytesMax = 32;
constexpr uint32_t kNoRule = UINT32_MAX;

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BytePairs::BytePairs(Vocabulary vocabulary, Rules rules)
    : vocabulary_(std::move(vocabulary)),
      from_characters_(rules.from_characters),
      whole_words_first_(rules.whole_words_first),
      tokenless_(std::move(rules.tokenless)) {
  rules_.reserve(rules.merges.size());
  for (const Merge& merge : rules.merges) {
    rules_[PairKey(merge.left, merge.right)] = {merge.rank, merge.merged};
  }
  TokenId id = vocabulary_.size();
  for (const std::string& character : tokenless_) tokenless_ids_.emplace(character, id++);
}

const BytePairs::Rule* BytePairs::Find(TokenId left, TokenId right) const {
  const auto found = rules_.find(PairKey(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BytePairs::ForEachSymbol(std::string_view piece,
                              absl::FunctionRef<void(TokenId)> symbol) const {
  const auto bytes = [&](std::string_view text) {
    for (const char byte : text) symbol(vocabulary_.TokenOfByte(static_cast<unsigned char>(byte)));
  };
  if (!from_characters_) return bytes(piece);
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, FirstUtf8Unit(piece).length);
    piece.remove_prefix(character.size());
    if (const auto token = vocabulary_.Find(character); token.has_value()) {
      symbol(*token);
    } else if (const auto found = tokenless_ids_.find(Absl(character));
               found != tokenless_ids_.end()) {
      symbol(found->second);
    } else {
      bytes(character);
    }
  }
}

void BytePairs::Emit(TokenId symbol, std::vector<TokenId>* ids) const {
  if (symbol < vocabulary_.size()) return ids->push_back(symbol);
  for (const char byte : tokenless_[symbol - vocabulary_.size()]) {
    ids->push_back(vocabulary_.TokenOfByte(static_cast<unsigned char>(byte)));
  }
}

void BytePairs::Encode(std::string_view piece, std::vector<TokenId>* ids) const {
  if (whole_words_first_) {
    if (const std::optional<TokenId> whole = vocabulary_.Find(piece); whole.has_value()) {
      ids->push_back(*whole);
      return;
    }
  }
  if (piece.size() <= kShortBytesMax) {
    EncodeShort(piece, ids);
  } else {
    EncodeLong(piece, ids);
  }
}

void BytePairs::EncodeShort(std::string_view piece, std::vector<TokenId>* ids) const {
  std::array<TokenId, kShortBytesMax> symbols;
  std::array<Rule, kShortBytesMax> rules;  // rules[i]: for the pair (i, i + 1)
  size_t count = 0;
  ForEachSymbol(piece, [&](TokenId symbol) { symbols[count++] = symbol; });
  const auto rule_at = [&](size_t i) {
    const Rule* rule = Find(symbols[i], symbols[i + 1]);
    return rule == nullptr ? Rule{kNoRule, 0} : *rule;
  };
  for (size_t i = 0; i + 1 < count; ++i) rules[i] = rule_at(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNoRule) break;
    symbols[best] = rules[best].merged;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(rules.begin() + best + 1, rules.begin() + count - 1, rules.begin() + best);
    --count;
    if (best + 1 < count) rules[best] = rule_at(best);
    if (best > 0) rules[best - 1] = rule_at(best - 1);
  }
  for (size_t i = 0; i < count; ++i) Emit(symbols[i], ids);
}

// Symbols in a doubly linked list over arrays; candidate merges in a queue ordered by (rank,
// position). An entry whose rank is no longer that of the pair at its position is stale and
// skipped.
struct BytePairs::Symbols {
  std::vector<TokenId> token;
  std::vector<Rule> rule;      // for (i, next[i])
  std::vector<uint32_t> next;  // index, or size at the end
  std::vector<uint32_t> previous;
};

void BytePairs::EncodeLong(std::string_view piece, std::vector<TokenId>* ids) const {
  Symbols symbols;
  symbols.token.reserve(piece.size());
  ForEachSymbol(piece, [&](TokenId symbol) { symbols.token.push_back(symbol); });
  const auto count = static_cast<uint32_t>(symbols.token.size());
  symbols.rule.resize(count);
  symbols.next.resize(count);
  symbols.previous.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    symbols.next[i] = i + 1;
    symbols.previous[i] = i - 1;  // unused at 0
  }
  std::vector<uint64_t> candidates;
  candidates.reserve(count);
  const auto update_rule = [&](uint32_t i) {
    const uint32_t next = symbols.next[i];
    const Rule* rule = next < count ? Find(symbols.token[i], symbols.token[next]) : nullptr;
    symbols.rule[i] = rule == nullptr ? Rule{kNoRule, 0} : *rule;
    return rule != nullptr;
  };
  const auto candidate = [&](uint32_t i) {
    return static_cast<uint64_t>(symbols.rule[i].rank) << 32 | i;
  };
  for (uint32_t i = 0; i < count; ++i) {
    if (update_rule(i)) candidates.push_back(candidate(i));
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                             std::move(candidates));
  while (!queue.empty()) {
    const auto i = static_cast<uint32_t>(queue.top());
    const auto rank = static_cast<uint32_t>(queue.top() >> 32);
    queue.pop();
    if (symbols.rule[i].rank != rank) continue;
    const uint32_t gone = symbols.next[i];
    symbols.token[i] = symbols.rule[i].merged;
    symbols.next[i] = symbols.next[gone];
    symbols.rule[gone].rank = kNoRule;
    if (symbols.next[gone] < count) symbols.previous[symbols.next[gone]] = i;
    if (update_rule(i)) queue.push(candidate(i));
    if (i > 0 && update_rule(symbols.previous[i])) queue.push(candidate(symbols.previous[i]));
  }
  for (uint32_t i = 0; i < count; i = symbols.next[i]) Emit(symbols.token[i], ids);
}

}  // namespace tutti::text
