// The facts about its request that the client's side of an output needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/service/resume_token.h"
#include "text/stop_matcher.h"

namespace tutti::coordinator {

class OutputText;

// The beginning of a stream, but for what only the engine knows.
struct StreamBeginning {
  std::shared_ptr<const ResumeTokens> tokens;
  ResumeClaims claims;      // numerics and max_tokens: of an answer that goes on, else the engine's
  std::string fingerprint;  // of the checkpoint
  int32_t prompt_tokens = 0;
  bool in_reasoning = false;         // the prompt ends so (prompt_reasoning.h)
  // Kept until the stream has ended (running_requests.h, running_grammars.h).
  std::shared_ptr<const void> name, grammar;
};

// The part that a client has of an output that goes on.
struct OutputResume {
  int32_t tokens = 0;
  bool finished = false;  // its end too: nothing more of it is sent
  // The text after its ids; null: only their count and digest are known, and they are computed
  // again and not sent.
  std::shared_ptr<const OutputText> text;
  uint64_t digest = 0;
};

// The part of a request that the hub needs. Each of its outputs gets a copy.
struct OutputOptions {
  std::vector<std::string> stop;                  // the strings of stop_matcher
  std::optional<text::StopMatcher> stop_matcher;  // none: nothing stops the text
  std::vector<TokenId> stop_token_ids;            // sorted; their text is not part of the output
  bool include_stop = false;
  int64_t min_tokens = 0;  // a stop string in the text of so many tokens is none
  bool skip_special_tokens = true;
  bool logprobs = false;
  uint64_t seed = 0;  // of output 0
  Instant arrival;
  std::shared_ptr<const StreamBeginning> beginning;  // null: the stream says nothing of itself
  std::vector<OutputResume> resume;  // by output; empty: all begin at their beginning
};

}  // namespace tutti::coordinator
