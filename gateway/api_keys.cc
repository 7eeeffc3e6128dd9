#include "gateway/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/plain_name.h"
#include "gateway/limits.h"

namespace tutti::gateway {

absl::StatusOr<ApiKeys> ApiKeys::Parse(std::string_view text, const std::string& path) {
  ApiKeys keys;
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(std::string(text), '\n')) {
    ++number;
    const std::string line(whole.substr(0, whole.find('#')));
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const bool is_operator = words.size() == 3 && words[2] == "operator";
    const bool is_hash = (words.size() == 2 || is_operator) && words[1].size() == 64 &&
                         std::all_of(words[1].begin(), words[1].end(), absl::ascii_isxdigit);
    if (!is_hash || !IsPlainName(words[0])) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number,
                       ": a line is a tenant ([A-Za-z0-9._-]) and the SHA-256 of its key in 64 "
                       "hexadecimal digits, and maybe \"operator\"; printf %s KEY | sha256sum "
                       "makes it"));
    }
    Entry entry{.hash = {}, .tenant = words[0], .is_operator = is_operator};
    const std::string bytes = absl::HexStringToBytes(words[1]);
    std::copy(bytes.begin(), bytes.end(), entry.hash.begin());
    keys.entries_.push_back(std::move(entry));
  }
  if (keys.entries_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no key: nobody could call"));
  }
  return keys;
}

absl::StatusOr<ApiKeys> ApiKeys::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(kKeyFileBytesMax) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.empty()) {
    return absl::NotFoundError(absl::StrCat("--api-keys ", path, " cannot be read, or is empty"));
  }
  if (static_cast<int64_t>(text.size()) > kKeyFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--api-keys ", path, " is larger than ", kKeyFileBytesMax, " bytes"));
  }
  return Parse(text, path);
}

absl::Status ApiKeys::AddPlain(std::string_view key, const char* flag) {
  if (key.empty() || key.size() > kKeyBytesMax ||
      !std::all_of(key.begin(), key.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": a key is 1 to ", kKeyBytesMax,
                                                   " visible characters of ASCII, without spaces"));
  }
  Entry entry{.hash = {}, .tenant = "", .is_operator = true};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), entry.hash.data());
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

const ApiKeys::Entry* ApiKeys::Find(std::string_view key) const {
  if (key.empty() || key.size() > kKeyBytesMax) return nullptr;
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  const Entry* found = nullptr;
  // All of them, so that the time says nothing.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  }
  return found;
}

std::optional<std::string> ApiKeys::TenantOf(std::string_view key) const {
  const Entry* found = Find(key);
  return found == nullptr ? std::nullopt : std::optional<std::string>(found->tenant);
}

bool ApiKeys::IsOperator(std::string_view key) const {
  const Entry* found = Find(key);
  return found != nullptr && found->is_operator;
}

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (absl::ascii_tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return {};
  }
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

}  // namespace tutti::gateway
