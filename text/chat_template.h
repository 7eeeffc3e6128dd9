// Chat messages to prompt text, by the template that comes with the model.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "text/segment.h"

namespace tutti::text {

namespace jinja {
struct Template;
}

// A model's Jinja template, rendered as HuggingFace's apply_chat_template does (trim_blocks,
// lstrip_blocks, its sandbox, tojson and raise_exception). What is known of Jinja is stated in
// text/jinja/parser.h.
//
// Immutable.  Thread: any, also several at once.
class ChatTemplate {
 public:
  // Errors: InvalidArgument "line N: ..." naming the part that is not supported or not well-formed.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // A variable of the model's own, such as bos_token: its text counts as the template's.
  void SetVariable(std::string name, std::string value);

  // The template used instead of this one when the request has tools.
  void SetToolTemplate(ChatTemplate other);

  // The template as it was parsed; where there is another for requests with tools, that.
  const std::string& source() const;

  // The prompt. `messages`: a list of objects with "role" and "content", as in the OpenAI API.
  // `kwargs`: an object of further variables: tools, add_generation_prompt, enable_thinking,
  // documents, or others that the template knows; absent ones of these are none, except
  // add_generation_prompt, which is false.
  //
  // `now`: the time that the template's strftime_now returns, in UTC. Without it a template that
  // asks first whether it is defined writes a date of its own, or none.
  //
  // Every byte that comes from `messages` or `kwargs` lies in a segment that is from_user, however
  // the template cut, joined or quoted it; adjacent segments differ in from_user.
  //
  // Errors: InvalidArgument with the message of the template's raise_exception, or "line N: ..."
  // for what the template cannot do with these messages, or naming the path of a bad value
  // ("messages[0].content"); ResourceExhausted beyond the limits of text/limits.h.
  absl::StatusOr<std::vector<Segment>> Render(const nlohmann::ordered_json& messages,
                                              const nlohmann::ordered_json& kwargs,
                                              std::optional<absl::Time> now = std::nullopt) const;

 private:
  explicit ChatTemplate(std::unique_ptr<jinja::Template> parsed);

  std::unique_ptr<jinja::Template> parsed_;
  std::string source_;
  std::vector<std::pair<std::string, std::string>> variables_;
  std::unique_ptr<ChatTemplate> tool_template_;
};

// The template of a model: chat_template.jinja, beside which additional_chat_templates/
// tool_use.jinja is that of requests with tools, or else chat_template of tokenizer_config.json,
// which is a string or a list of {name, template} of which "default" and "tool_use" are used, or
// else the family's own (builtin_templates.h). ChatGLM3's own comes before that of its
// tokenizer_config.json, which gives other ids than it was trained with. The special tokens that
// tokenizer_config.json names (bos_token, eos_token, ...) are its variables.
//
// `file`: where not empty, the template that is used instead, with the same variables.
//
// Errors: NotFound when the model has none; otherwise as Parse and ReadTextFile, naming the file.
absl::StatusOr<ChatTemplate> LoadChatTemplate(const std::filesystem::path& model_dir,
                                              const std::filesystem::path& file = {});

}  // namespace tutti::text
