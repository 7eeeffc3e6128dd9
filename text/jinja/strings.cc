#include "text/jinja/strings.h"

#include <algorithm>

#include "base/status.h"
#include "text/case_mapping.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

// The beginning of the character that ends at `end`.
size_t PreviousCharacter(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

bool IsStripped(std::string_view character, std::optional<std::string_view> chars) {
  if (chars.has_value()) return chars->find(character) != std::string_view::npos;
  return IsPythonSpace(FirstUtf8Unit(character).code_point);
}

// Each character of `text` as `append` writes it, which sees all of them.
template <typename Append>
Text MapCharacters(const Text& text, Append append) {
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = FirstUtf8Unit(text.bytes().substr(at));
    characters.push_back(unit.code_point);
    at += unit.length;
  }
  Text out;
  size_t at = 0, i = 0;
  for (const Text::Run& run : text.runs()) {
    std::string mapped;
    for (; at < run.end; ++i) {
      append(characters, i, &mapped);
      at += FirstUtf8Unit(text.bytes().substr(at)).length;
    }
    out.Append(mapped, run.from_user);
  }
  return out;
}

struct TextRange {
  size_t begin, end;
};

std::vector<TextRange> SplitAtSpace(std::string_view text, int64_t max) {
  std::vector<TextRange> parts;
  size_t at = 0;
  const auto space_at = [&](size_t i) {
    const Utf8Unit unit = FirstUtf8Unit(text.substr(i));
    return IsPythonSpace(unit.code_point) ? unit.length : 0;
  };
  while (true) {
    while (at < text.size() && space_at(at) > 0) at += space_at(at);
    if (at >= text.size()) return parts;
    const size_t begin = at;
    if (max >= 0 && static_cast<int64_t>(parts.size()) == max) {
      parts.push_back({begin, text.size()});
      return parts;
    }
    while (at < text.size() && space_at(at) == 0) at += FirstUtf8Unit(text.substr(at)).length;
    parts.push_back({begin, at});
  }
}

std::vector<TextRange> SplitAtSpaceFromRight(std::string_view text, int64_t max) {
  std::vector<TextRange> parts;
  size_t end = text.size();
  const auto is_space = [&](size_t begin, size_t behind) {
    return IsStripped(text.substr(begin, behind - begin), std::nullopt);
  };
  while (true) {
    while (end > 0 && is_space(PreviousCharacter(text, end), end))
      end = PreviousCharacter(text, end);
    if (end == 0) break;
    size_t begin = end;
    if (static_cast<int64_t>(parts.size()) == max) {
      begin = 0;
    } else {
      while (begin > 0 && !is_space(PreviousCharacter(text, begin), begin)) {
        begin = PreviousCharacter(text, begin);
      }
    }
    parts.push_back({begin, end});
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<TextRange> SplitAt(std::string_view text, std::string_view separator, int64_t max,
                               bool from_right) {
  std::vector<TextRange> parts;
  size_t begin = 0, end = text.size();
  const auto more = [&] { return max < 0 || static_cast<int64_t>(parts.size()) < max; };
  while (more()) {
    const std::string_view rest = text.substr(begin, end - begin);
    const size_t found = from_right ? rest.rfind(separator) : rest.find(separator);
    if (found == std::string_view::npos) break;
    if (from_right) {
      parts.push_back({begin + found + separator.size(), end});
      end = begin + found;
    } else {
      parts.push_back({begin, begin + found});
      begin += found + separator.size();
    }
  }
  parts.push_back({begin, end});
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text Strip(const Text& text, std::optional<std::string_view> chars, Side side) {
  const std::string_view bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const size_t length = FirstUtf8Unit(bytes.substr(begin)).length;
    if (!IsStripped(bytes.substr(begin, length), chars)) break;
    begin += length;
  }
  while (side != Side::kLeft && begin < end) {
    const size_t last = PreviousCharacter(bytes, end);
    if (!IsStripped(bytes.substr(last, end - last), chars)) break;
    end = last;
  }
  return text.Substr(begin, end - begin);
}

absl::StatusOr<Text> Replace(const Text& text, std::string_view old, const Text& by, int64_t count,
                             Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.size()));
  std::vector<size_t> places;
  if (old.empty()) {  // before every character, and at the end
    TUTTI_RETURN_IF_ERROR(work->ChargeValues(text.size()));
    for (size_t at = 0; count < 0 || static_cast<int64_t>(places.size()) < count;) {
      places.push_back(at);
      if (at >= text.size()) break;
      at += FirstUtf8Unit(text.bytes().substr(at)).length;
    }
  }
  for (size_t at = old.empty() ? std::string_view::npos : text.bytes().find(old);
       at != std::string_view::npos; at = text.bytes().find(old, at + old.size())) {
    if (count >= 0 && static_cast<int64_t>(places.size()) >= count) break;
    places.push_back(at);
  }
  TUTTI_RETURN_IF_ERROR(
      work->ChargeBytes(text.size() - places.size() * old.size() + places.size() * by.size()));
  Text out;
  size_t done = 0;
  for (const size_t place : places) {
    out.Append(text, done, place - done);
    out.Append(by);
    done = place + old.size();
  }
  out.Append(text, done, text.size() - done);
  return out;
}

Text Upper(const Text& text) {
  return MapCharacters(
      text, [](std::u32string_view all, size_t i, std::string* out) { AppendUpper(all[i], out); });
}

Text Lower(const Text& text) {
  return MapCharacters(
      text, [](std::u32string_view all, size_t i, std::string* out) { AppendLower(all, i, out); });
}

Text Capitalize(const Text& text) {
  return MapCharacters(text, [](std::u32string_view all, size_t i, std::string* out) {
    if (i == 0) return AppendTitle(all[i], out);
    AppendLower(all, i, out);
  });
}

Text Title(const Text& text) {
  return MapCharacters(text, [](std::u32string_view all, size_t i, std::string* out) {
    if (i == 0 || !IsCased(all[i - 1])) return AppendTitle(all[i], out);
    AppendLower(all, i, out);
  });
}

Text TitleWords(const Text& text) {
  const auto separates = [](char32_t c) {
    return IsPythonSpace(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<';
  };
  return MapCharacters(text, [&](std::u32string_view all, size_t i, std::string* out) {
    if (separates(all[i])) return AppendUtf8(all[i], out);
    if (i == 0 || separates(all[i - 1])) return AppendUpper(all[i], out);
    // The word behind its first character is put into lower case by itself: that one does not tell
    // whether a sigma is the last of a word.
    size_t behind = i;
    while (behind > 0 && IsCaseIgnorable(all[behind - 1])) --behind;
    const bool after_first = behind == 1 || (behind > 1 && separates(all[behind - 2]));
    AppendLower(after_first ? all.substr(i) : all, after_first ? 0 : i, out);
  });
}

std::vector<Text> SplitLines(const Text& text, bool keep_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = FirstUtf8Unit(text.bytes().substr(at));
    const size_t line_end = at;
    at += unit.length;
    if (!ends_line(unit.code_point)) continue;
    if (unit.code_point == '\r' && text.bytes().substr(at, 1) == "\n") ++at;
    lines.push_back(text.Substr(begin, (keep_ends ? at : line_end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.Substr(begin, text.size() - begin));
  return lines;
}

absl::StatusOr<Value> Split(const Text& text, std::optional<std::string_view> separator,
                            int64_t max, bool from_right, Work* work) {
  if (separator.has_value() && separator->empty()) {
    return absl::InvalidArgumentError("empty separator");
  }
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.size()));
  const std::vector<TextRange> parts =
      separator.has_value()    ? SplitAt(text.bytes(), *separator, max, from_right)
      : from_right && max >= 0 ? SplitAtSpaceFromRight(text.bytes(), max)
                               : SplitAtSpace(text.bytes(), max);
  TUTTI_RETURN_IF_ERROR(work->ChargeStrings(parts.size()));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const TextRange& part : parts) {
    items.push_back(Value::Str(text.Substr(part.begin, part.end - part.begin)));
  }
  return Value::MakeList(std::move(items));
}

SliceBounds BoundsOfSlice(size_t size, std::optional<int64_t> begin, std::optional<int64_t> end,
                          int64_t step) {
  const auto count = static_cast<int64_t>(size);
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? count : count - 1;
  const auto clamp = [&](int64_t index) {
    if (index < 0) index = index < -count ? lowest : index + count;
    return std::clamp(index, lowest, highest);
  };
  return {begin.has_value() ? clamp(*begin) : (step > 0 ? lowest : highest),
          end.has_value() ? clamp(*end) : (step > 0 ? highest : lowest)};
}

std::vector<size_t> SliceIndices(size_t size, std::optional<int64_t> begin,
                                 std::optional<int64_t> end, int64_t step) {
  const auto count = static_cast<int64_t>(size);
  auto [at, stop] = BoundsOfSlice(size, begin, end, step);
  std::vector<size_t> indices;
  while (step > 0 ? at < stop : at > stop) {
    indices.push_back(static_cast<size_t>(at));
    if (step > count || step < -count) break;  // and no overflow
    at += step;
  }
  return indices;
}

absl::StatusOr<Text> SliceText(const Text& text, std::optional<int64_t> begin,
                               std::optional<int64_t> end, int64_t step, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(text.size())));
  std::vector<size_t> offsets;  // of each character, and the end
  for (size_t at = 0; at < text.size(); at += FirstUtf8Unit(text.bytes().substr(at)).length) {
    offsets.push_back(at);
  }
  offsets.push_back(text.size());
  const std::vector<size_t> indices = SliceIndices(offsets.size() - 1, begin, end, step);
  if (step == 1) {
    if (indices.empty()) return Text();
    return text.Substr(offsets[indices.front()],
                       offsets[indices.back() + 1] - offsets[indices.front()]);
  }
  Text out;
  for (const size_t i : indices) out.Append(text, offsets[i], offsets[i + 1] - offsets[i]);
  return out;
}

}  // namespace tutti::text::jinja
