// A child's log file, as its parent reads it. The file is bounded: see kLogBytesMax.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::client {

class LogFile {
 public:
  explicit LogFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Whole lines written since the last call, oldest first. Cuts the file back to nothing when it
  // has grown too large and everything in it has been read.
  std::vector<std::string> ReadNewLines();
  // The file's last lines, at most `count`.
  std::vector<std::string> LastLines(int count) const;
  // Cuts the file back to nothing when it has grown too large, for readers that do not follow it.
  void Bound();

 private:
  const std::string path_;
  int64_t offset_ = 0;
};

}  // namespace tutti::client
