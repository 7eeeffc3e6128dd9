// A small file in which workers of one machine leave what they measured: a line "KEY VALUE" each.
// Whoever holds it measures alone.
//
// Threads: any; each with an object of its own.
#pragma once

#include <string>
#include <string_view>

namespace tutti::worker {

// An open file that is ours alone until the end.
class SharedFile {
 public:
  // Waits while another process, or another object, holds the file.
  explicit SharedFile(const std::string& path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Whether it could be opened. If not, it has no values and keeps none.
  bool ok() const { return fd_ >= 0; }
  // The value that was left under `key` last; "": none. Of a file longer than kSharedFileBytesMax
  // only the beginning is read.
  std::string Find(std::string_view key) const;
  // False: it could not be written.  REQUIRES: no blanks in either
  bool Append(std::string_view key, std::string_view value) const;

 private:
  int fd_;
};

}  // namespace tutti::worker
