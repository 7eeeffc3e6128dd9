#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace tutti::text {

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (const AddedToken& token : tokens_) {
    first_bytes_[static_cast<unsigned char>(token.content[0])] = true;
    uint32_t node = 0;
    for (const char byte : token.content) {
      const auto [edge, inserted] =
          edges_.emplace(Edge(node, byte), static_cast<uint32_t>(nodes_.size()));
      if (inserted) nodes_.emplace_back();
      node = edge->second;
    }
    nodes_[node].token = &token;
  }
  if (std::count(first_bytes_.begin(), first_bytes_.end(), true) == 1) {
    first_byte_ = tokens_.front().content[0];
  }
}

absl::InlinedVector<const AddedToken*, 2> AddedTokenMatcher::At(std::string_view text) const {
  absl::InlinedVector<const AddedToken*, 2> found;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto edge = edges_.find(Edge(node, byte));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (nodes_[node].token != nullptr) found.push_back(nodes_[node].token);
  }
  return found;
}

size_t AddedTokenMatcher::SkipTo(std::string_view text, size_t begin) const {
  if (first_byte_.has_value()) return std::min(text.find(*first_byte_, begin), text.size());
  while (begin < text.size() && !first_bytes_[static_cast<unsigned char>(text[begin])]) ++begin;
  return begin;
}

}  // namespace tutti::text
