#include "client/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/utf8.h"
#include "client/limits.h"

namespace tutti::client {

std::string FormatCount(int64_t count) {
  std::string digits = absl::StrCat(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string FormatShare(double share) { return absl::StrFormat("%.0f %%", share * 100); }

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 0.00995) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 0.9995) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 59.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(std::min(seconds, 1e15));
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
}

absl::StatusOr<std::vector<int64_t>> ParseDevices(absl::string_view text) {
  std::vector<int64_t> devices;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    int32_t count = 1;
    absl::string_view size = part;
    const size_t times = part.find_first_of("xX*");
    if (times != absl::string_view::npos) {
      if (!absl::SimpleAtoi(part.substr(0, times), &count) || count <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", OneLine(part.substr(0, times)), "\" in \"", OneLine(part),
                         "\" is not a number of devices; write for example 4x24GiB"));
      }
      size = part.substr(times + 1);
    }
    TUTTI_ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(size));
    if (bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a device of 0 bytes in \"", OneLine(part), "\""));
    }
    if (count > kDevicesMax - static_cast<int32_t>(devices.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kDevicesMax, " devices in \"", OneLine(text), "\""));
    }
    devices.insert(devices.end(), static_cast<size_t>(count), bytes);
  }
  return devices;
}

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(absl::string_view text) {
  std::vector<int32_t> ids;
  for (absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(", \t\n"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id) || id < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", OneLine(part), "\" is not a token id; write for example 1,2,3"));
    }
    ids.push_back(id);
  }
  if (ids.empty()) return absl::InvalidArgumentError("the list of token ids is empty");
  return ids;
}

int64_t DisplayWidth(absl::string_view text) {
  return static_cast<int64_t>(CountCharacters({text.data(), text.size()}));
}

void Table::AddRow(std::vector<std::string> cells) {
  CHECK(cells.size() == columns_.size())
      << cells.size() << " cells, " << columns_.size() << " columns";
  rows_.push_back(std::move(cells));
}

namespace {

// "…" in the place of what is cut.
std::string Cut(const std::string& text, int64_t width) {
  if (DisplayWidth(text) <= width) return text;
  size_t end = 0;
  for (int64_t shown = 0; end < text.size(); ++end) {
    if (BeginsCharacter(text[end]) && ++shown >= width) break;
  }
  return text.substr(0, end) + "…";
}

}  // namespace

std::string Table::PartToString(const std::vector<size_t>& part, const std::vector<int64_t>& widths,
                                int indent) const {
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t c = part[i];
      const std::string cell = Cut(cell_of(c), widths[c]);
      const std::string padding(static_cast<size_t>(widths[c] - DisplayWidth(cell)), ' ');
      if (i > 0) line += "  ";
      line += columns_[c].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) -> const std::string& { return row[c]; });
  }
  return out;
}

std::string Table::ToString(int indent, int64_t width) const {
  const int64_t room = std::max<int64_t>(width - indent, 8);
  std::vector<int64_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int64_t widest = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[c]));
    // The first column stands in every part, and leaves room for another.
    widths.push_back(std::min(widest, c == 0 ? room / 3 : room - widths[0] - 2));
  }
  std::string out;
  std::vector<size_t> part;
  int64_t taken = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (part.size() > 1 && taken + 2 + widths[c] > room) {
      out += PartToString(part, widths, indent);
      part = {0};
      taken = widths[0];
    }
    taken += widths[c] + (part.empty() ? 0 : 2);
    part.push_back(c);
  }
  return part.empty() ? out : out + PartToString(part, widths, indent);
}

namespace {

// The bytes of a colour that begins at `at`; 0 if none does.
size_t ColourBytes(absl::string_view text, size_t at) {
  if (text.substr(at, 2) != "\x1b[") return 0;
  const size_t end = text.find('m', at);
  return end == absl::string_view::npos ? 0 : end + 1 - at;
}

void WrapLine(absl::string_view line, int64_t width, std::string* out) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::string indent(std::min(first + 4, static_cast<size_t>(width) / 2), ' ');
  int64_t column = 0;
  size_t last_space = std::string::npos;  // in `out`, of the line that is being written
  bool has_word = false;
  for (size_t at = 0; at < line.size();) {
    if (const size_t colour = ColourBytes(line, at); colour > 0) {
      out->append(line.data() + at, colour);
      at += colour;
      continue;
    }
    const bool begins = BeginsCharacter(line[at]);
    if (begins && column == width) {
      if (line[at] == ' ') {
        ++at;
        *out += "\n" + indent;
        column = static_cast<int64_t>(indent.size());
      } else if (last_space != std::string::npos) {
        const std::string word = out->substr(last_space + 1);
        out->resize(last_space);
        *out += "\n" + indent + word;
        column = static_cast<int64_t>(indent.size()) + DisplayWidth(word);
      } else {
        *out += "\n" + indent;
        column = static_cast<int64_t>(indent.size());
      }
      last_space = std::string::npos;
      continue;
    }
    if (line[at] == ' ' && has_word) last_space = out->size();
    has_word |= line[at] != ' ';
    if (begins) ++column;
    *out += line[at++];
  }
}

}  // namespace

std::string Wrap(absl::string_view text, int64_t width) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    WrapLine(text.substr(0, end), width, &out);
    if (end == absl::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string OneLine(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1_control = c == 0xC2 && i + 1 < text.size() &&
                            static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                            static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1_control) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[++i]));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += ' ';
    } else if (c < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&out, "\\x%02x", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

std::string TerminalFilter::Filter(absl::string_view piece) {
  const std::string text = pending_ + std::string(piece);
  pending_.clear();
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0xC2) {
      if (i + 1 == text.size()) {
        pending_ = text.substr(i);
        break;
      }
      const auto next = static_cast<unsigned char>(text[i + 1]);
      if (next >= 0x80 && next < 0xA0) {
        ++i;
        continue;
      }
    }
    const bool steers = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (!steers) out += static_cast<char>(c);
  }
  return out;
}

}  // namespace tutti::client
