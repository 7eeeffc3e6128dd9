#include "client/log_file.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "client/limits.h"

namespace tutti::client {
namespace {

// Bytes [begin, begin + count) of a file, or as many as there are.
std::string ReadPart(const std::string& path, int64_t begin, int64_t count) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(begin);
  std::string bytes(static_cast<size_t>(count), '\0');
  file.read(bytes.data(), count);
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::vector<std::string> Lines(absl::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.empty()) return {};
  return absl::StrSplit(text, '\n');
}

}  // namespace

std::vector<std::string> LogFile::ReadNewLines() {
  const int64_t size = SizeOf(path_);
  offset_ = std::min(offset_, size);
  std::string part = ReadPart(path_, offset_, std::min(size - offset_, kLastLogBytes));
  const size_t end = part.rfind('\n');
  if (end == std::string::npos) {
    // A line longer than the window is passed on in pieces.
    if (static_cast<int64_t>(part.size()) < kLastLogBytes) {
      Bound();
      return {};
    }
  } else {
    part.resize(end + 1);
  }
  offset_ += static_cast<int64_t>(part.size());
  Bound();
  return Lines(part);
}

std::vector<std::string> LogFile::LastLines(int count) const {
  const int64_t size = SizeOf(path_);
  const int64_t begin = std::max<int64_t>(0, size - kLastLogBytes);
  std::vector<std::string> lines = Lines(ReadPart(path_, begin, size - begin));
  // The first one may have been cut by the window.
  if (begin > 0 && lines.size() > 1) lines.erase(lines.begin());
  const auto excess = static_cast<int64_t>(lines.size()) - count;
  if (excess > 0) lines.erase(lines.begin(), lines.begin() + excess);
  return lines;
}

void LogFile::Bound() {
  // The writer appends (O_APPEND), so it goes on at the new end.
  if (SizeOf(path_) > kLogBytesMax && truncate(path_.c_str(), 0) == 0) offset_ = 0;
}

}  // namespace tutti::client
