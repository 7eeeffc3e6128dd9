// Numbers and tables as people read and type them.
//
// Thread: any; everything here is a pure function or a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/byte_size.h"  // sizes are formatted with everything else
#include "base/status.h"

namespace tutti::client {

// "1,234,567".
std::string FormatCount(int64_t count);

// "45 %".
std::string FormatShare(double share);

// "0.8 ms", "12 ms", "3.4 s", "2 min 5 s", "3 h 12 min".
std::string FormatSeconds(double seconds);

// "4x24GiB,1x48GiB" or "24GiB": one entry per device, in order.
// INVALID_ARGUMENT names the part at fault; more than kDevicesMax devices are refused.
absl::StatusOr<std::vector<int64_t>> ParseDevices(absl::string_view text);

// "1,2,3", with spaces allowed: token ids, none negative. INVALID_ARGUMENT names the part at fault.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(absl::string_view text);

// A table of text with aligned columns: the first column to the left, others as told.
class Table {
 public:
  static constexpr int64_t kAnyWidth = int64_t{1} << 40;
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  // Every line ends with '\n' and starts with `indent` spaces; no trailing spaces. A table of more
  // than `width` columns of a terminal is told in several, one below the other, each of which has
  // the first column; what is too wide even so is cut.
  std::string ToString(int indent = 0, int64_t width = kAnyWidth) const;

 private:
  std::string PartToString(const std::vector<size_t>& part, const std::vector<int64_t>& widths,
                           int indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns a UTF-8 text takes on a terminal, one per code point. Table aligns by it.
int64_t DisplayWidth(absl::string_view text);

// `text` with lines of at most `width` columns: longer ones go on in the next, four columns further
// in than they began. Colours (terminal.h) take no room. A word that is wider than a line is cut in
// two.
std::string Wrap(absl::string_view text, int64_t width);

// Columns of every screen and every mail: what the status is made for.
inline constexpr int64_t kScreenColumns = 80;

// `text` as one line that is safe on a terminal: control characters, which could move the cursor or
// rename the window, become spaces or visible escapes. For text that came from elsewhere (logs,
// errors, names).
std::string OneLine(absl::string_view text);

// `text` without control sequences for a terminal; line ends and tabs stay. For generated text.
//
// Keeps a half-written escape or character across calls, so that a stream is filtered as a whole
// would be.
class TerminalFilter {
 public:
  std::string Filter(absl::string_view piece);

 private:
  std::string pending_;  // the first bytes of a two-byte control character (C2 80..C2 9F)
};

}  // namespace tutti::client
