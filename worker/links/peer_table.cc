#include "worker/links/peer_table.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/address.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string QuotedText(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(std::string(text)), "\"");
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

bool IsWorkerId(std::string_view name) {
  if (name.empty() || name.size() > kWorkerIdBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

absl::Status PeerTable::Add(std::string_view entry) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", QuotedText(entry), " is not of the form NAME=ADDRESS"));
  }
  return Insert(Trimmed(entry.substr(0, equals)), Trimmed(entry.substr(equals + 1)));
}

absl::Status PeerTable::AddFile(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read the file ", path, ": ", std::strerror(errno)));
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view text = Trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    const size_t blank = text.find_first_of(kBlanks);
    absl::Status status = blank == std::string_view::npos
                              ? absl::InvalidArgumentError(absl::StrCat(
                                    QuotedText(text), " is not of the form NAME ADDRESS"))
                              : Insert(text.substr(0, blank), Trimmed(text.substr(blank)));
    if (!status.ok()) return Annotate(status, absl::StrCat(path, ":", number));
  }
  if (file.bad()) return absl::UnavailableError(absl::StrCat("reading ", path, " failed"));
  return absl::OkStatus();
}

absl::Status PeerTable::Insert(std::string_view name, std::string_view address) {
  if (!IsWorkerId(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker id ", QuotedText(name), " does not match [A-Za-z0-9._-]{1,128}"));
  }
  if (address.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", QuotedText(name),
                     " has no address; write NAME=HOST:PORT or NAME=unix:/FOLDER/NAME"));
  }
  const absl::Status written = CheckAddress({address.data(), address.size()}, AddressUse::kDial);
  if (!written.ok()) return Annotate(written, absl::StrCat("peer ", QuotedText(name)));
  if (addresses_.size() >= kPeersMax) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kPeersMax, " peers"));
  }
  const auto [found, added] = addresses_.emplace(name, address);
  if (!added && found->second != address) {
    return absl::InvalidArgumentError(absl::StrCat("peer ", QuotedText(name),
                                                   " has two addresses: ", found->second, " and ",
                                                   std::string(address), "; keep one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PeerTable::Find(const std::string& worker_id) const {
  const auto found = addresses_.find(worker_id);
  if (found != addresses_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, address] : addresses_) names.push_back(name);
  return absl::NotFoundError(absl::StrCat("worker ", QuotedText(worker_id),
                                          " is not in this worker's peer table; it has ",
                                          names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

}  // namespace tutti::worker
