// An answer over as many streams as it takes: what a client has of it, the request that goes on
// with it, and when to send that.
//
// Only tokens that the caller has taken count: what came and was not handed on is asked for again.
// A request that goes on with an answer itself has taken what it says it has.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/id_digest.h"
#include "base/random.h"
#include "base/status.h"
#include "client/output_order.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// Whether gRPC means, by these words, that a call never left; and the mark of such a call's status.
bool IsNeverConnected(absl::string_view words_of_grpc);
absl::Status NeverConnected(absl::Status status);

class ResumingAnswer {
 public:
  struct Options {
    Duration within{};     // tries end when nothing has come for so long; zero: there are none
    size_t addresses = 1;  // of the service
    uint64_t random = 0;   // differs between clients
    bool allow_inexact = false;  // what goes on may be computed in other bits
    Instant began{};             // when the call did
    bool served = false;         // the service has, less than `within` before: it may be back soon
  };
  ResumingAnswer(v1::GenerateRequest request, const Options& options);

  // The request that is to be sent next.
  const v1::GenerateRequest& request() const { return request_; }

  // Looks at the next message: as OutputOrder::Check. Removes from it what only the first stream is
  // to tell.
  absl::Status Check(v1::GenerateResponse* message);
  // The caller has it.
  void Take(const v1::GenerateResponse& message);

  // A stream ended so: the end of the answer, or after which pause the next is tried.
  struct End {
    absl::Status status;  // of the answer, unless `pause` is set
    std::optional<Duration> pause;
  };
  // `broke`: it was the connection that failed, not the service that said so.
  End OnStreamEnd(const absl::Status& status, bool broke, Instant now);

  // Whether nothing has come yet, and it is tried again all the same: the service served a moment
  // ago.
  bool waits_for_service() const { return options_.served && !heard_; }

  // Finishes in order of the outputs.  REQUIRES: it ended OK
  std::vector<v1::Finish> ReleaseFinishes() { return order_.ReleaseFinishes(); }

 private:
  // The part of one output that the caller has: ids, or where it came without them, their count and
  // digest.
  struct Output {
    std::vector<int32_t> ids;
    std::optional<IdDigest> digest;
    uint32_t count = 0;  // with `digest`
    bool finished = false;
  };
  void StartWhereTheCallerIs();
  v1::Resume WhatTheCallerHas() const;
  bool MayGoOn(const absl::Status& status) const;
  Duration NextPause(const absl::Status& status);

  const Options options_;
  v1::GenerateRequest request_;
  OutputOrder order_;
  std::vector<Output> outputs_;
  std::optional<v1::Started> started_;
  bool took_ = false;  // the caller has tokens, or an end, of this answer's streams
  // Some stream brought a message, broke while we waited for one, or was refused by a service that
  // asks us to come again: it is there, and worth waiting for.
  bool heard_ = false;
  size_t tries_ = 0;  // since a message came
  Duration pause_;    // the next
  std::optional<Instant> silent_since_;
  uint64_t draws_ = 0;
};

}  // namespace tutti::client
