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
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void Table::AddRow(std::vector<std::string> cells) {
  CHECK(cells.size() == columns_.size())
      << cells.size() << " cells, " << columns_.size() << " columns";
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(int indent) const {
  std::vector<int64_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int64_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(static_cast<size_t>(widths[c] - DisplayWidth(cell)), ' ');
      if (c > 0) line += "  ";
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
