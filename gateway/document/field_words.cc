#include <iterator>
#include <utility>

#include "gateway/document/documented.h"

namespace tutti::gateway {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFieldWords[] = {
    {"add_generation_prompt", "Whether the prompt opens the answer's message; unset: yes"},
    {"add_special_tokens", "Whether a text gets the tokens that begin one; unset: yes"},
    {"allowed_token_ids", "Nothing else is drawn"},
    {"bad_words", "Never drawn, as they stand and behind a space"},
    {"best_of", "As n"},
    {"cache_salt", "Prompts share kept computations with those of the same salt alone"},
    {"chat_template_kwargs", "Variables of the chat template"},
    {"continue_final_message", "The last message goes on, and no other is opened"},
    {"detokenize", "Whether texts are made at all"},
    {"echo", "The prompt stands before the answer"},
    {"enable_thinking", "A variable of the chat template"},
    {"frequency_penalty", "Of tokens of the output, for each time"},
    {"ignore_eos", "The model's own end ends nothing"},
    {"include", "message.output_text.logprobs: log-probabilities"},
    {"include_reasoning", "Whether reasoning is told; unset: yes"},
    {"include_stop_str_in_output", "A text of stop that ends the answer is told"},
    {"input", "The conversation: a text, or items"},
    {"instructions", "The system message"},
    {"logit_bias", "By token id, added before a token is drawn"},
    {"logprobs", "Log-probabilities: true, or of how many alternatives"},
    {"max_completion_tokens", "The longest answer; before max_tokens"},
    {"max_output_tokens", "The longest answer"},
    {"max_tokens", "The longest answer"},
    {"messages", "The conversation"},
    {"min_p", "Least share of the likeliest token's probability"},
    {"min_tokens", "Nothing ends the answer before"},
    {"model", "A name that the model is served under; unset: whichever is served"},
    {"n", "Outputs"},
    {"output_config", "effort: a variable of the chat template"},
    {"output_mode", "text: beside the ids; unset: tokens"},
    {"parallel_tool_calls", "false: one call at most"},
    {"presence_penalty", "Of tokens of the output"},
    {"priority", "Lower goes first; below 0 is refused"},
    {"prompt", "A text or ids of tokens, or several of either"},
    {"prompt_logprobs", "Log-probabilities of the prompt, with so many alternatives"},
    {"reasoning", "effort: a variable of the chat template"},
    {"reasoning_effort", "A variable of the chat template"},
    {"repetition_penalty", "Of tokens of prompt and output"},
    {"request_id", "The name of the request"},
    {"response_format", "The form of the answer"},
    {"return_token_ids", "Ids of prompt and answer are told"},
    {"return_token_strs", "The text of each token is told"},
    {"return_tokens_as_token_ids", "Log-probabilities name tokens as token_id:7"},
    {"sampling_params", "How tokens are drawn; the fields of other requests"},
    {"seed", "Equal seeds draw equal answers"},
    {"skip_special_tokens", "Whether they are left out of texts; unset: yes"},
    {"speculation", "Whether next tokens are guessed, and how many: no answer depends on it"},
    {"split_special_tokens", "Their texts are read as any other text"},
    {"stop", "Texts that end the answer"},
    {"stop_sequences", "Texts that end the answer"},
    {"stop_token_ids", "Tokens that end the answer"},
    {"stream", "The answer comes as events"},
    {"stream_options", "What streams tell beside the answer"},
    {"structured_outputs", "What the answer may be"},
    {"system", "The system message"},
    {"temperature", "0: the likeliest token"},
    {"text", "format: the form of the answer"},
    {"thinking", "A variable of the chat template; the budget is not enforced"},
    {"token_ids", "The prompt"},
    {"tokens", "Ids"},
    {"tool_choice", "Whether, and which, functions are called"},
    {"tools", "Functions that may be called"},
    {"top_k", "So many of the likeliest tokens; 0 or -1: all"},
    {"top_logprobs", "Alternatives told with log-probabilities"},
    {"top_p", "The likeliest tokens of so much probability together"},
    {"truncate_prompt_tokens", "So many of the prompt's last tokens count"},
};

}  // namespace

const std::map<std::string_view, std::string_view>& FieldWords() {
  static const auto* const words = new std::map<std::string_view, std::string_view>(
      std::begin(kFieldWords), std::end(kFieldWords));
  return *words;
}

}  // namespace tutti::gateway
