// Parts of an answer's JSON that streams and whole answers share.
//
// Pure.  Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/json_text.h"
#include "gateway/openai/generation_request.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// The head that every chunk of an answer repeats.
struct AnswerHead {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
};

// Tokens of all choices together.
class UsageSum {
 public:
  void Take(const v1::GenerateResponse& message) {
    TakePrompt(message);
    TakeTokens(message);
  }
  // The two by themselves: the first chunk of a stream tells the prompt before any token.
  void TakePrompt(const v1::GenerateResponse& message);
  void TakeTokens(const v1::GenerateResponse& message);
  OrderedJson ToJson() const;

 private:
  // The usage of one call: of `started` until its outputs end, then of their finishes.
  int64_t prompt_ = 0, completion_ = 0, cached_ = 0;
  int64_t guessed_ = 0, guessed_right_ = 0;
};

// Tokens that end an output: whichever comes is its last.
struct EndTokens {
  std::vector<int32_t> unseen;   // whose text is no part of the output
  std::vector<int32_t> reasons;  // that the request named, and are told as `stop_reason`

  static EndTokens Of(const v1::SamplingParams& sampling, const std::vector<int32_t>& eos_ids);
  bool is_unseen(int32_t id) const;
  // Whether one of the message's tokens is none of these.
  bool sees_any_of(const v1::GenerateResponse& message) const;
  // The reason among the tokens of a message.
  std::optional<int32_t> ReasonIn(const v1::GenerateResponse& message) const;
};

// The log-probabilities of one choice, as the tokens come.
class LogprobWriter {
 public:
  LogprobWriter(bool chat, bool tokens_as_ids, EndTokens ends = {})
      : chat_(chat), tokens_as_ids_(tokens_as_ids), ends_(std::move(ends)) {}
  // The log-probabilities of these tokens, but for `ends`; null for none. To be called for every
  // message of the choice, in order.
  OrderedJson ToJson(const v1::GenerateResponse& message);
  // Those of a prompt's tokens, whose first has none; before any message. Of completions.
  OrderedJson PromptJson(const std::vector<v1::OutputToken>& scores);

 private:
  OrderedJson ChatJson(const v1::GenerateResponse& message) const;
  OrderedJson CompletionJson(const v1::GenerateResponse& message);
  std::string TextOf(int32_t id, const std::string& bytes) const;

  bool chat_;
  bool tokens_as_ids_;
  EndTokens ends_;
  int64_t offset_ = 0;  // characters of the tokens so far
};

// The log-probabilities of a prompt in vLLM's form: null, then by id for each token.
OrderedJson PromptLogprobsJson(const std::vector<v1::OutputToken>& scores);

// The ids of a message's tokens.
OrderedJson TokenIdsJson(const v1::GenerateResponse& message);

// The log-probabilities of all messages of a choice, as text: a tenth of what it is as JSON's tree,
// and written as they come and not all at once.
class LogprobLists {
 public:
  // Lists by name; returns by how many bytes it has grown.
  size_t Append(const OrderedJson& more);
  // The lists, which are empty if nothing was appended.
  std::string Text(bool chat) const;

 private:
  std::vector<std::pair<std::string, std::string>> lists_;
};

// Texts of two objects, as one of the members of both.
std::string Joined(std::string first, std::string_view second);

// "stop" or "length".
const char* FinishReasonText(v1::FinishReason reason);
// The stop string that ended an output, or the token of the request's `stop_token_ids`, or null.
OrderedJson StopReasonJson(const v1::Finish& finish, std::optional<int32_t> token);
// A fingerprint for clients, from that of a checkpoint.
std::string SystemFingerprint(const std::string& model_fingerprint);

}  // namespace tutti::gateway
