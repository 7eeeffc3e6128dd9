// The callers that may call: keys by their hashes, each of a tenant.
//
// The file has a line for each key, the tenant and the key's SHA-256 in hexadecimal, with spaces
// between, and then "operator" if who has it may also see the state of the service; "#" begins a
// comment. `printf %s KEY | sha256sum` makes the hash. Keys are long random
// texts, so that a plain hash keeps them secret.
//
// Thread: any, once made.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::gateway {

class ApiKeys {
 public:
  // Errors name `path` and the line.
  static absl::StatusOr<ApiKeys> Parse(std::string_view text, const std::string& path);
  static absl::StatusOr<ApiKeys> Load(const std::string& path);
  // Adds a key in plain text, of an operator who is no tenant. `flag`: of errors.
  absl::Status AddPlain(std::string_view key, const char* flag);

  // The tenant of a key; nothing for one that is not known. Takes the same time for all keys of the
  // same length.
  std::optional<std::string> TenantOf(std::string_view key) const;
  // Whether the key is known and an operator's. Takes as long.
  bool IsOperator(std::string_view key) const;

 private:
  using Hash = std::array<unsigned char, 32>;
  struct Entry {
    Hash hash;
    std::string tenant;
    bool is_operator = false;
  };
  const Entry* Find(std::string_view key) const;
  std::vector<Entry> entries_;
};

// The key of "Bearer KEY"; empty if it is none.
std::string_view BearerKey(std::string_view authorization);

}  // namespace tutti::gateway
