#include "text/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "text/limits.h"

namespace tutti::text {

absl::StatusOr<Vocabulary> Vocabulary::Create(std::vector<Entry> entries) {
  TokenId largest = -1;
  size_t bytes = 0;
  for (const Entry& entry : entries) {
    if (entry.id < 0 || entry.id > kTokenIdMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", entry.id, " is outside [0, ", kTokenIdMax, "]"));
    }
    CHECK(!entry.fallback || entry.bytes.size() == 1);
    largest = std::max(largest, entry.id);
    bytes += entry.bytes.size();
  }
  std::vector<const Entry*> by_id(largest + 1, nullptr);
  for (const Entry& entry : entries) {
    if (by_id[entry.id] != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("two tokens have the id ", entry.id));
    }
    by_id[entry.id] = &entry;
  }

  Vocabulary vocabulary;
  vocabulary.arena_.reserve(bytes);
  vocabulary.offsets_.reserve(by_id.size() + 1);
  vocabulary.offsets_.push_back(0);
  for (const Entry* entry : by_id) {
    if (entry != nullptr) {
      vocabulary.arena_.insert(vocabulary.arena_.end(), entry->bytes.begin(), entry->bytes.end());
    }
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.arena_.size()));
  }
  vocabulary.ids_.reserve(entries.size());
  for (TokenId id = 0; id <= largest; ++id) {
    const std::string_view token = vocabulary.Bytes(id);
    if (token.empty() || by_id[id]->fallback) continue;
    if (!vocabulary.ids_.emplace(token, id).second) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " repeats another one"));
    }
  }
  TUTTI_RETURN_IF_ERROR(vocabulary.FindBytes(entries));
  return vocabulary;
}

absl::Status Vocabulary::FindBytes(const std::vector<Entry>& entries) {
  byte_tokens_.assign(256, -1);
  bool any_fallback = false;
  for (const Entry& entry : entries) {
    if (!entry.fallback) continue;
    any_fallback = true;
    TokenId& token = byte_tokens_[static_cast<unsigned char>(entry.bytes[0])];
    if (token >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("token ", entry.id, " repeats another one"));
    }
    token = entry.id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (!any_fallback) byte_tokens_[byte] = Find(std::string_view(&text, 1)).value_or(-1);
    if (byte_tokens_[byte] < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("no token stands for byte 0x%02x", byte));
    }
  }
  return absl::OkStatus();
}

std::optional<TokenId> Vocabulary::Find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tutti::text
