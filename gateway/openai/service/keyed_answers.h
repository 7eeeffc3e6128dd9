// Answers to requests with an Idempotency-Key, while they are computed and for a short time after:
// the same request again gets the same answer, and it is computed once.
//
// Thread: the server's loop.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "gateway/api_error.h"

namespace tutti::gateway {

class Generation;

// The key that tells requests apart: SHA-256 of path and body.
using RequestDigest = std::array<unsigned char, 32>;
RequestDigest DigestOf(std::string_view path, std::string_view body);

// 1 to kKeyOfRequestBytesMax printable characters; else 400.
std::optional<ApiError> CheckIdempotencyKey(std::string_view key);

class KeyedAnswers {
 public:
  // The answer under that key of that tenant; null: there is none. 400: it is of another request.
  std::variant<std::shared_ptr<Generation>, ApiError> Find(const std::string& tenant,
                                                           std::string_view key,
                                                           const RequestDigest& request) const;
  // Otherwise an answer is as one without a key.
  bool has_room() const;
  // REQUIRES: has_room()
  void Add(const std::string& tenant, std::string_view key, const RequestDigest& request,
           std::shared_ptr<Generation> answer);
  // Forgets those that have ended, and ends those that nobody has come back for.
  void Tick(Instant now);
  size_t size() const { return answers_.size(); }

 private:
  struct Entry {
    RequestDigest request;
    std::shared_ptr<Generation> answer;
    std::optional<Instant> idle_since;  // nobody reads it any more
  };
  std::map<std::pair<std::string, std::string>, Entry> answers_;
  size_t bytes_ = 0;  // kept of all of them, at the last tick
};

}  // namespace tutti::gateway
