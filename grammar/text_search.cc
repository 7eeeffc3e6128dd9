#include "grammar/text_search.h"

#include <deque>

namespace tutti::grammar {

TextSearch::TextSearch(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    for (const char c : text) {
      uint8_t& own = class_of_[static_cast<uint8_t>(c)];
      // UTF-8 has fewer than 255 bytes.
      if (own == 0) own = static_cast<uint8_t>(classes_++);
    }
  }
  constexpr uint32_t kNone = UINT32_MAX - 1;
  next_.assign(classes_, kNone);
  for (const std::string& text : texts) {
    uint32_t state = kStart;
    for (size_t i = 0; i < text.size() && state != kFound; ++i) {
      const size_t at = state * classes_ + class_of_[static_cast<uint8_t>(text[i])];
      if (i + 1 == text.size()) {
        next_[at] = kFound;
      } else if (next_[at] == kNone) {
        next_[at] = static_cast<uint32_t>(next_.size() / classes_);
        next_.resize(next_.size() + classes_, kNone);
      }
      state = next_[at];
    }
  }
  // Where a text does not go on, the longest beginning that what was read ends with does.
  std::vector<uint32_t> shorter(next_.size() / classes_, kStart);
  std::deque<uint32_t> order = {kStart};
  while (!order.empty()) {
    const uint32_t state = order.front();
    order.pop_front();
    for (uint32_t c = 0; c < classes_; ++c) {
      uint32_t& next = next_[state * classes_ + c];
      const uint32_t other = state == kStart ? kStart : next_[shorter[state] * classes_ + c];
      if (next == kNone || other == kFound) {
        next = other;
      } else if (next != kFound) {
        shorter[next] = other;
        order.push_back(next);
      }
    }
  }
}

bool TextSearch::CanMiss(uint32_t state, DecoderState character) const {
  if (character == 0) return true;
  for (int byte = 0x80; byte < 0xC0; ++byte) {
    const DecodedByte decoded = DecodeByte(TextForm::kPlain, character, static_cast<uint8_t>(byte));
    if (decoded.kind == DecodedByte::Kind::kRefused) continue;
    const uint32_t next = Step(state, static_cast<uint8_t>(byte));
    if (next != kFound && CanMiss(next, decoded.state)) return true;
  }
  return false;
}

}  // namespace tutti::grammar
