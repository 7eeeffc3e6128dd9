// Answers to requests with an Idempotency-Key, while they are computed and for a short time after:
// the same request again gets the same answer, and it is computed once.
//
// An owner may have as much of the places and bytes as is free beside (door/byte_budget.h).
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
#include "door/byte_budget.h"
#include "gateway/api_error.h"
#include "gateway/limits.h"

namespace tutti::gateway {

class Generation;

// The key that tells requests apart: SHA-256 of path and body.
using RequestDigest = std::array<unsigned char, 32>;
RequestDigest DigestOf(std::string_view path, std::string_view body);

// The field of an answer that says "no" where its key is not kept: a repeat is computed again.
inline constexpr char kKeyKeptField[] = "Idempotency-Key-Kept";

// 1 to kKeyOfRequestBytesMax printable characters; else 400.
std::optional<ApiError> CheckIdempotencyKey(std::string_view key);

class KeyedAnswers {
 public:
  explicit KeyedAnswers(int64_t places = kKeyedAnswersMax, int64_t bytes = kKeptBytesMax)
      : places_(places), bytes_(bytes) {}

  // The answer under that key of that owner; null: there is none. 400: it is of another request.
  std::variant<std::shared_ptr<Generation>, ApiError> Find(const std::string& owner,
                                                           std::string_view key,
                                                           const RequestDigest& request) const;
  // A place for one more answer of the owner; none: it is as one without a key, which is counted.
  std::optional<door::ByteBudget::Charge> TakePlace(const std::string& owner);
  void Add(const std::string& owner, std::string_view key, const RequestDigest& request,
           std::shared_ptr<Generation> answer, door::ByteBudget::Charge place);
  // Forgets those that have ended, ends those that nobody has come back for, and keeps none of
  // which there is more than its owner may have.
  void Tick(Instant now);
  // Answers that have a key and were not kept, since the beginning.
  int64_t not_kept() const { return not_kept_; }
  size_t size() const { return answers_.size(); }

 private:
  struct Entry {
    door::ByteBudget::Charge place, bytes;  // the second as at the last tick
    RequestDigest request;
    std::shared_ptr<Generation> answer;
    std::optional<Instant> idle_since;  // nobody reads it any more
  };
  // Whether it is kept on.
  bool LookAt(const std::string& owner, Entry* entry, Instant now);

  door::ByteBudget places_, bytes_;  // before what is charged to them
  int64_t not_kept_ = 0;
  std::map<std::pair<std::string, std::string>, Entry> answers_;
};

}  // namespace tutti::gateway
