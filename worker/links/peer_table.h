// The places of the other workers, in the operator's own words: names and addresses. It goes before
// what workers announce (peer_finder.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::worker {

// [A-Za-z0-9._-]{1,128}
bool IsWorkerId(std::string_view name);

// Thread: the one that fills it; constant after that, and any thread may read.
class PeerTable {
 public:
  // "NAME=ADDRESS". INVALID_ARGUMENT quotes the wrong part, of a name given twice both addresses.
  absl::Status Add(std::string_view entry);
  // A file of lines "NAME ADDRESS"; empty lines and those that begin with # are skipped. Errors
  // name file and line.
  absl::Status AddFile(const std::string& path);

  // NOT_FOUND says which names there are.
  absl::StatusOr<std::string> Find(const std::string& worker_id) const;
  size_t size() const { return addresses_.size(); }
  // Addresses by name.
  const std::map<std::string, std::string>& addresses() const { return addresses_; }

 private:
  absl::Status Insert(std::string_view name, std::string_view address);

  std::map<std::string, std::string> addresses_;
};

}  // namespace tutti::worker
