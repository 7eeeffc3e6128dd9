#include "model/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "model/limits.h"

namespace tutti {

absl::StatusOr<Vocabulary> Vocabulary::Create(std::vector<Entry> entries) {
  TokenId largest = -1;
  size_t bytes = 0;
  for (const Entry& entry : entries) {
    if (entry.id < 0 || entry.id > kTokenIdMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", entry.id, " is outside [0, ", kTokenIdMax, "]"));
    }
    largest = std::max(largest, entry.id);
    bytes += entry.bytes.size();
  }
  std::vector<const std::string*> by_id(largest + 1, nullptr);
  for (const Entry& entry : entries) {
    if (by_id[entry.id] != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("two tokens have the id ", entry.id));
    }
    by_id[entry.id] = &entry.bytes;
  }

  Vocabulary vocabulary;
  vocabulary.arena_.reserve(bytes);
  vocabulary.offsets_.reserve(by_id.size() + 1);
  vocabulary.offsets_.push_back(0);
  for (const std::string* token : by_id) {
    if (token != nullptr) {
      vocabulary.arena_.insert(vocabulary.arena_.end(), token->begin(), token->end());
    }
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.arena_.size()));
  }
  vocabulary.ids_.reserve(entries.size());
  for (TokenId id = 0; id <= largest; ++id) {
    const std::string_view token = vocabulary.Bytes(id);
    if (!token.empty() && !vocabulary.ids_.emplace(token, id).second) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " repeats another one"));
    }
  }
  vocabulary.byte_tokens_.resize(256);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const std::optional<TokenId> id = vocabulary.Find(std::string_view(&text, 1));
    if (!id.has_value()) {
      return absl::InvalidArgumentError(absl::StrFormat("no token stands for byte 0x%02x", byte));
    }
    vocabulary.byte_tokens_[byte] = *id;
  }
  return vocabulary;
}

std::optional<TokenId> Vocabulary::Find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tutti
