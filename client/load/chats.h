// The requests of a load test. Every chat is a function of the options and its number, not of
// earlier requests or their pace: two runs with the same options ask the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/load/questions.h"
#include "client/load/trace.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

struct ChatOptions {
  uint64_t seed = 1;
  int32_t turns = 1;
  v1::SamplingParams sampling;         // of every request; its seed is chosen per turn
  std::optional<v1::Grammar> grammar;  // of every request
  int32_t tenants = 0;                 // chats are dealt to so many; 0: no tenant is named
  int32_t priority = 0;

  // Questions.
  std::string system;               // the same for all chats; empty: none
  int32_t history = 0;              // questions already answered at the start of every chat
  std::vector<Question> questions;  // to draw from; empty: made up (questions.h)

  // Token ids at random, below `vocabulary`.
  int32_t input_tokens = 0;   // of a turn; > 0: token ids instead of questions
  int32_t shared_tokens = 0;  // of them, at the start of the first turn, the same for all chats
  int32_t vocabulary = 0;
};

// One conversation.  Thread: one.
class Chat {
 public:
  virtual ~Chat() = default;
  // The next turn.  REQUIRES: every turn before has been answered.
  virtual v1::GenerateRequest Ask() = 0;
  // The answer of the last turn asked for, which the next one repeats.
  virtual void Hear(const std::string& text, const std::vector<int32_t>& ids) = 0;
  // The right answer of the last turn, where it is known.
  virtual std::optional<std::string> RightAnswer() const { return std::nullopt; }
};

std::unique_ptr<Chat> MakeChat(const ChatOptions& options, int64_t number);

// A request of a trace: as many random tokens as it had, the same where its blocks were the same,
// and as long an output. Its blocks have `block_tokens` tokens instead of kTraceBlockTokens, and
// its lengths shrink with them, so that models with a small context can be used.
std::unique_ptr<Chat> MakeTraceChat(const ChatOptions& options, const TraceRequest& request,
                                    int32_t block_tokens, int64_t number);

}  // namespace tutti::client
