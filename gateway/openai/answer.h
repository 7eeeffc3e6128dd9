// An answer in OpenAI's form, from the messages of the service: chunk by chunk, or whole.
//
// Pure functions of the messages so far, so that any gateway can continue any other's stream.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/openai/answer_parts.h"
#include "gateway/openai/choice_text.h"
#include "gateway/openai/generation_request.h"

namespace tutti::gateway {

// The shape of an answer: the request without its prompts.
struct AnswerShape {
  AnswerShape(const GenerationRequest& request);

  bool chat;
  bool include_usage;
  bool continuous_usage;
  bool logprobs;
  bool tokens_as_ids;
  bool token_ids;
  std::vector<std::vector<int32_t>> prompt_ids;  // by prompt, where token_ids
  std::shared_ptr<const ParseOptions> parse;
  bool old_reasoning_name;
  size_t choices_per_prompt;
  std::vector<std::string> echoes;  // by prompt
  bool echoes_scores;               // the log-probabilities of prompts stand before the output's
  bool tells_scores;                // or in a field of their own
  bool no_output;
  std::vector<std::vector<v1::OutputToken>> prompt_scores;  // by prompt
  EndTokens ends;
  // Whose log-probabilities are not told: a chat's are those of its text, as OpenAI's; a
  // completion's those of all tokens, as vLLM's: tools take the last for the output's.
  EndTokens silent;
  size_t choices() const { return echoes.size() * choices_per_prompt; }
};

// The chunks of a stream, as server-sent events.
class StreamAnswer {
 public:
  StreamAnswer(AnswerShape shape, AnswerHead head);

  // The text for a message of the call for prompt `prompt`. May be empty. An output's end by a
  // token or a text comes in an event of its own, its end by length with its last token, however
  // messages came together on their way.
  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message);
  // All calls ended well.
  std::string OnEnd();
  // One did not, and nothing follows.
  static std::string OnError(const ApiError& error);

 private:
  struct Choice {
    LogprobWriter writer;
    ChoiceText text;
    bool begun = false;
    std::optional<int32_t> stop_id;  // that ended it
  };
  std::string Events(size_t prompt, const v1::GenerateResponse& message);
  // `with_prompt`: the ids of the only prompt too.
  std::string Event(OrderedJson choices, bool terminal, bool with_prompt = false) const;
  // `piece`: null: no text. `message`: null: another chunk of it follows.
  OrderedJson ChoiceJson(size_t index, const AnswerPiece* piece,
                         const v1::GenerateResponse* message);

  const AnswerShape shape_;
  const AnswerHead head_;
  std::vector<Choice> choices_;
  UsageSum usage_;
  std::string fingerprint_;
};

// The body of a whole answer.
class WholeAnswer {
 public:
  WholeAnswer(AnswerShape shape, AnswerHead head);

  void OnMessage(size_t prompt, const v1::GenerateResponse& message);
  // The bytes that are kept.
  size_t bytes() const { return bytes_; }
  // The body after the end of all calls.
  std::string Body() const;

 private:
  struct Choice {
    LogprobWriter writer;
    ChoiceText text;
    std::string raw;  // all of its text
    bool in_reasoning = false;
    bool has_echoed = false;  // log-probabilities of its prompt
    AnswerPieces pieces;
    LogprobLists logprobs;
    OrderedJson token_ids = OrderedJson::array();
    std::optional<int32_t> stop_id;
    v1::Finish finish;
  };
  // What is told of a prompt; null, as vLLM's, what was not asked for.
  OrderedJson PromptJson(size_t prompt) const;

  const AnswerShape shape_;
  const AnswerHead head_;
  std::vector<Choice> choices_;
  size_t bytes_ = 0;
  UsageSum usage_;
  std::string fingerprint_;
};

}  // namespace tutti::gateway
