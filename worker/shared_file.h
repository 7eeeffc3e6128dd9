// A small file in which workers of one machine leave what they measured: a line "KEY VALUE" each.
// Whoever holds it measures alone.
//
// Threads: any; each with an object of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::worker {

// An open file that is ours alone until the end.
class SharedFile {
 public:
  // Waits while another process, or another object, holds the file: for kSharedFilePatience at
  // most, and while `keep_on`, asked several times a second, is OK. Empty: it always is.
  explicit SharedFile(const std::string& path,
                      const std::function<absl::Status()>& keep_on = nullptr);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Whether it is ours. If not, it has no values and keeps none.
  bool ok() const { return fd_ >= 0; }
  // Why it is not: UNAVAILABLE, or what keep_on said.
  const absl::Status& status() const { return status_; }
  // The value that was left under `key` last; "": none. Of a file longer than kSharedFileBytesMax
  // only the end is read.
  std::string Find(std::string_view key) const;
  // False: it could not be written. A file that would grow longer than kSharedFileBytesMax loses
  // its oldest lines, what has been said anew since, and what is no such line; one that has none is
  // somebody else's, and stays as it is, as the log says.
  // REQUIRES: no blanks in either
  bool Append(std::string_view key, std::string_view value) const;

 private:
  std::string ReadEnd() const;
  bool WriteAtEnd(std::string_view text) const;

  int fd_ = -1;
  absl::Status status_;
};

}  // namespace tutti::worker
