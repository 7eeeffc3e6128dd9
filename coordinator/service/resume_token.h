// Resume tokens: what a service claims about an answer that it began, under a MAC, so that any
// coordinator with the same key can go on with it exactly and keeps nothing for that.
//
// A token is the claims in a fixed form and HMAC-SHA-256 of them, cut to 16 bytes. Nothing in it is
// secret: texts and names are in it as keyed hashes only.
//
// Thread: any; immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "coordinator/request.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

struct ResumeClaims {
  int64_t issued_s = 0;  // since 1970
  uint64_t seed = 0;     // of output 0
  int32_t max_tokens = 0;
  // A hash by ResumeTokens: the message, what was made of it here (prompt's ids, sampling, stop
  // tokens), the tenant, and the checkpoint.
  Hash128 body;
  Hash128 meaning;
  Hash128 tenant;
  Hash128 model;
  std::string numerics;  // class; empty: any

  bool operator==(const ResumeClaims&) const = default;
};

class ResumeTokens {
 public:
  // Seconds since 1970, which machines agree on within moments; steers the age of tokens only.
  using WallClock = std::function<int64_t()>;
  ResumeTokens(std::string key, WallClock now);
  // Tokens by the machine's clock.
  explicit ResumeTokens(std::string key);

  // `claims.issued_s` is not read: the token is issued now. Empty where the class has a name longer
  // than kNumericsClassBytesMax: such an answer cannot go on elsewhere.
  std::string Issue(const ResumeClaims& claims) const;
  // INVALID_ARGUMENT: not issued under this key, or changed since. FAILED_PRECONDITION: older than
  // kResumeTokenLifeSeconds.
  absl::StatusOr<ResumeClaims> Open(std::string_view token) const;

  // ---- the hashes in claims

  // The hash of all of the request's fields but `resume`, `request_id` and `tenant`, which it
  // leaves as they were.
  Hash128 HashBody(v1::GenerateRequest* message) const;
  // The hash of what is computed, the seed excepted.
  Hash128 HashMeaning(const Request& request) const;
  Hash128 HashTenant(std::string_view tenant) const;
  Hash128 HashModel(std::string_view fingerprint) const;

 private:
  std::string Mac(std::string_view claims) const;

  const std::string key_;
  const WallClock now_;
};

// FAILED_PRECONDITION naming what is not as it was claimed: the tenant, the checkpoint or the
// request.
absl::Status CheckSameRequest(const ResumeClaims& claims, const ResumeClaims& now);
// The same of what was made of the request.
absl::Status CheckSameMeaning(const ResumeClaims& claims, const Hash128& now);

}  // namespace tutti::coordinator
