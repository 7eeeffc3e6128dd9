#include "text/character_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

constexpr size_t kUnitBytes = 4;

uint32_t ReadUnit(std::string_view bytes) {
  uint32_t unit = 0;
  for (size_t i = 0; i < kUnitBytes; ++i) {
    unit |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return unit;
}

// The parts of a unit, as darts-clone packs them.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Label(uint32_t unit) { return unit & (1U << 31 | 0xFF); }
uint32_t ValueOf(uint32_t unit) { return unit & ~(1U << 31); }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

bool EndsCharacter(std::string_view text, size_t length) {
  return length >= text.size() || (static_cast<unsigned char>(text[length]) & 0xC0) != 0x80;
}

}  // namespace

absl::StatusOr<CharacterMap> CharacterMap::Parse(std::string_view table) {
  if (table.size() < kUnitBytes) return absl::InvalidArgumentError("ends within its length");
  const size_t array_bytes = ReadUnit(table);
  table.remove_prefix(kUnitBytes);
  if (array_bytes > table.size() || array_bytes % kUnitBytes != 0 || array_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "says its array has ", array_bytes, " bytes, and has ", table.size(), " bytes altogether"));
  }
  CharacterMap map;
  map.units_.reserve(array_bytes / kUnitBytes);
  for (size_t at = 0; at < array_bytes; at += kUnitBytes) {
    map.units_.push_back(ReadUnit(table.substr(at)));
  }
  map.targets_ = std::string(table.substr(array_bytes));
  if (FindInvalidUtf8(map.targets_).has_value()) {
    return absl::InvalidArgumentError("a replacement is not valid UTF-8");
  }
  for (std::string_view rest = map.targets_; !rest.empty();) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    if (end > kCharacterMapTargetBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a replacement has ", end, " bytes, at most ", kCharacterMapTargetBytesMax));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return map;
}

std::string_view CharacterMap::Target(uint32_t offset) const {
  const std::string_view from = std::string_view(targets_).substr(offset);
  return from.substr(0, from.find('\0'));
}

CharacterMap::Match CharacterMap::Longest(std::string_view text) const {
  Match best;
  uint32_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit) || node >= units_.size() || !EndsCharacter(text, i + 1)) continue;
    const uint32_t offset = ValueOf(units_[node]);
    // An offset within a character would make text that is none.
    if (offset > targets_.size() || !EndsCharacter(targets_, offset)) continue;
    best = {i + 1, Target(offset)};
  }
  return best;
}

std::string CharacterMap::Apply(std::string_view text) const {
  std::string mapped;
  mapped.reserve(text.size());
  while (!text.empty()) {
    const Match match = Longest(text);
    const size_t length = match.length > 0 ? match.length : FirstUtf8Unit(text).length;
    mapped.append(match.length > 0 ? match.target : text.substr(0, length));
    text.remove_prefix(length);
  }
  return mapped;
}

}  // namespace tutti::text
