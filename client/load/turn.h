// The outcome of one request of a load test, as its client saw it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::client {

// Times count from when the request was due, not from when it was sent: a client that falls behind
// must not make the service look faster ("coordinated omission", G. Tene).
struct Turn {
  int64_t chat = 0;
  int32_t turn = 0;  // from 0
  absl::Status status;
  Duration due{};          // since the load began
  int32_t refusals = 0;    // after which it was asked again
  Duration first_token{};  // from due to the first token; only if there is one
  Duration total{};        // from due to the end
  Duration token_gap{};    // between tokens, on average; only if there are two
  // Gaps between messages with tokens, with how many tokens shared each.
  struct Gap {
    Duration gap{};
    int32_t tokens = 1;
  };
  std::vector<Gap> gaps;
  std::string text;
  std::vector<int32_t> ids;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  // The tokens of the prompt that earlier turns computed: the hits of a perfect cache. 0 in the
  // first turn.
  int64_t repeated_tokens = 0;
  std::optional<std::string> right_answer;
};

}  // namespace tutti::client
