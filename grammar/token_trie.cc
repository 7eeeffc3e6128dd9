#include "grammar/token_trie.h"

#include <optional>

#include "grammar/char_decoder.h"
#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

struct Entry {
  std::string_view bytes;
  TokenId id = 0;
};

// The characters of a token that is plain; nothing for others.
std::optional<size_t> PlainCharacters(std::string_view bytes) {
  size_t characters = 0;
  DecoderState state = 0;
  for (const char byte : bytes) {
    if (byte == '"' || byte == '\\') return std::nullopt;
    const DecodedByte decoded =
        DecodeByte(TextForm::kJsonString, state, static_cast<uint8_t>(byte));
    if (decoded.kind == DecodedByte::Kind::kRefused) return std::nullopt;
    if (decoded.kind == DecodedByte::Kind::kCharacter) ++characters;
    state = decoded.state;
  }
  return state == 0 ? std::optional(characters) : std::nullopt;
}

// Says of each node what is below it. `whole`: tokens are of whole characters.
void LookBelow(bool whole, TokenTrie::Part* part) {
  std::vector<uint8_t> kinds(part->nodes.size());
  std::vector<uint32_t> above;
  for (uint32_t i = 0; i < part->size(); ++i) {
    const TokenTrie::Node& node = part->nodes[i];
    above.resize(node.depth - 1u);
    uint8_t kind = KindOf(node.byte);
    if (kind == kHighByte && !whole) kind = kOtherByte;
    for (const uint32_t other : above) {
      TokenTrie::Node& upper = part->nodes[other];
      kinds[other] |= kind;
      const int height = node.depth - upper.depth;
      upper.height = static_cast<uint8_t>(std::clamp<int>(height, upper.height, 255));
    }
    above.push_back(i);
  }
  for (uint32_t i = 0; i < part->size(); ++i) {
    // Longer ways are walked.
    if (part->nodes[i].height < 255) part->nodes[i].below = FamilyOf(kinds[i]);
  }
}

TokenTrie::Part MakePart(std::vector<Entry> entries, bool whole) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  TokenTrie::Part part;
  std::vector<uint32_t> open;  // places that lead to the latest token
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (open.size() > depth) {
      part.nodes[open.back()].behind = static_cast<uint32_t>(part.nodes.size());
      open.pop_back();
    }
  };
  for (const Entry& entry : entries) {
    size_t common = 0;
    while (common < last.size() && common < entry.bytes.size() &&
           last[common] == entry.bytes[common]) {
      ++common;
    }
    close(common);
    for (size_t i = common; i < entry.bytes.size(); ++i) {
      open.push_back(static_cast<uint32_t>(part.nodes.size()));
      const auto ids = static_cast<uint32_t>(part.ids.size());
      part.nodes.push_back(
          {0, ids, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(entry.bytes[i])});
    }
    part.ids.push_back(entry.id);
    last = entry.bytes;
  }
  close(0);
  part.nodes.push_back({0, static_cast<uint32_t>(part.ids.size())});
  LookBelow(whole, &part);
  return part;
}

}  // namespace

absl::StatusOr<TokenTrie> TokenTrie::Create(std::span<const std::string_view> bytes,
                                            std::span<const TokenId> ends, int64_t size,
                                            std::span<const TokenId> special) {
  if (size < static_cast<int64_t>(bytes.size())) {
    return absl::InvalidArgumentError(Concat(bytes.size(), " tokens of a vocabulary of ", size));
  }
  TokenTrie trie;
  trie.size_ = size;
  trie.ends_.assign(ends.begin(), ends.end());
  std::sort(trie.ends_.begin(), trie.ends_.end());
  if (!trie.ends_.empty() && (trie.ends_.front() < 0 || trie.ends_.back() >= size)) {
    return absl::InvalidArgumentError(Concat("an end of answers beyond the vocabulary of ", size));
  }
  std::vector<std::vector<Entry>> plain;  // by characters
  std::vector<Entry> all_plain;
  std::vector<Entry> others;
  std::vector<bool> is_special(bytes.size());
  for (const TokenId id : special) {
    if (id < 0 || static_cast<size_t>(id) >= bytes.size()) {
      return absl::InvalidArgumentError(Concat("special token ", id, " of ", bytes.size()));
    }
    is_special[static_cast<size_t>(id)] = true;
  }
  trie.offsets_.push_back(0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string own(bytes[i]);
    if (is_special[i] && !own.empty()) {
      own = SpecialTokenBytes(own);
    } else if (own.find('\xFF') != std::string::npos) {
      own.clear();  // is in no text, and must not begin what stands for a special token
    }
    trie.arena_.insert(trie.arena_.end(), own.begin(), own.end());
    trie.offsets_.push_back(static_cast<uint32_t>(trie.arena_.size()));
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view own = trie.Bytes(id);
    if (own.empty() || own.size() > kTokenBytesMax) continue;
    if (const auto characters = PlainCharacters(own)) {
      plain.resize(std::max(plain.size(), *characters));
      plain[*characters - 1].push_back({own, id});
      all_plain.push_back({own, id});
    } else {
      others.push_back({own, id});
    }
  }
  trie.plain_ = MakePart(std::move(all_plain), /*whole=*/true);
  trie.others_ = MakePart(std::move(others), /*whole=*/false);
  std::vector<uint32_t> mask(trie.words());
  for (const std::vector<Entry>& entries : plain) {
    for (const Entry& entry : entries) mask[entry.id / 32] |= 1u << (entry.id % 32);
    trie.plain_masks_.push_back(mask);
  }
  return trie;
}

std::string_view TokenTrie::Bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) + 1 >= offsets_.size() || IsEnd(id)) return {};
  return std::string_view(arena_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]);
}

bool TokenTrie::IsEnd(TokenId id) const {
  return std::binary_search(ends_.begin(), ends_.end(), id);
}

}  // namespace tutti::grammar
