#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/builtin_templates.h"
#include "text/jinja/ast.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/limits.h"
#include "text/text_file.h"
#include "text/tokenizer_files.h"

namespace tutti::text {
namespace {

using jinja::Value;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kSpecialTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

using Variables = std::vector<std::pair<std::string, Value>>;

std::vector<Segment> ToSegments(const jinja::Text& text) {
  std::vector<Segment> segments;
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    segments.push_back({std::string(text.bytes().substr(begin, run.end - begin)), run.from_user});
    begin = run.end;
  }
  return segments;
}

bool Defines(const Variables& variables, std::string_view name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&](const auto& variable) { return variable.first == name; });
}

absl::StatusOr<ChatTemplate> ParseFrom(std::string_view source, const std::string& where) {
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return Annotate(parsed.status(), where);
  return parsed;
}

// chat_template of tokenizer_config.json. NotFound when there is none.
absl::StatusOr<ChatTemplate> FromConfig(const json& config, const std::string& file) {
  const std::string field = file + ": chat_template";
  const json value = config.value("chat_template", json());
  if (value.is_null()) return absl::NotFoundError(field + ": the model has no chat template");
  if (value.is_string()) return ParseFrom(value.get_ref<const std::string&>(), field);
  if (!value.is_array()) return absl::InvalidArgumentError(field + ": neither string nor list");
  std::unique_ptr<ChatTemplate> usual, with_tools;
  for (const json& entry : value) {
    if (!entry.is_object() || !entry.value("name", json()).is_string() ||
        !entry.value("template", json()).is_string()) {
      return absl::InvalidArgumentError(field + ": an element is not {name, template}");
    }
    const std::string name = entry["name"].get<std::string>();
    if (name != "default" && name != "tool_use") continue;
    TUTTI_ASSIGN_OR_RETURN(
        ChatTemplate parsed,
        ParseFrom(entry["template"].get_ref<const std::string&>(), absl::StrCat(field, ".", name)));
    auto& slot = name == "default" ? usual : with_tools;
    slot = std::make_unique<ChatTemplate>(std::move(parsed));
  }
  if (usual == nullptr) return absl::NotFoundError(field + ": has none named \"default\"");
  if (with_tools != nullptr) usual->SetToolTemplate(std::move(*with_tools));
  return std::move(*usual);
}

// "<s>", or {"content": "<s>", ...} as older files write it.
void SetSpecialTokens(const json& config, ChatTemplate* chat_template) {
  for (const std::string_view name : kSpecialTokens) {
    json token = config.value(std::string(name), json());
    if (token.is_object()) token = token.value("content", json());
    if (token.is_string()) {
      chat_template->SetVariable(std::string(name), token.get<std::string>());
    }
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<jinja::Template> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<jinja::Template> parsed, jinja::ParseTemplate(source));
  ChatTemplate chat_template(std::move(parsed));
  chat_template.source_ = source;
  return chat_template;
}

const std::string& ChatTemplate::source() const {
  return tool_template_ == nullptr ? source_ : tool_template_->source();
}

void ChatTemplate::SetVariable(std::string name, std::string value) {
  if (tool_template_ != nullptr) tool_template_->SetVariable(name, value);
  variables_.emplace_back(std::move(name), std::move(value));
}

void ChatTemplate::SetToolTemplate(ChatTemplate other) {
  for (const auto& [name, value] : variables_) other.SetVariable(name, value);
  tool_template_ = std::make_unique<ChatTemplate>(std::move(other));
}

absl::StatusOr<std::vector<Segment>> ChatTemplate::Render(const ordered_json& messages,
                                                          const ordered_json& kwargs,
                                                          std::optional<absl::Time> now) const {
  if (!messages.is_array()) return absl::InvalidArgumentError("messages: not a list");
  if (!kwargs.is_object() && !kwargs.is_null()) {
    return absl::InvalidArgumentError("template arguments: not an object");
  }
  const bool has_tools = kwargs.contains("tools") && !kwargs["tools"].is_null();
  if (has_tools && tool_template_ != nullptr) return tool_template_->Render(messages, kwargs, now);

  Variables variables;
  TUTTI_ASSIGN_OR_RETURN(Value list, Value::FromJson(messages, "messages", /*from_user=*/true));
  variables.emplace_back("messages", std::move(list));
  for (auto member = kwargs.begin(); member != kwargs.end(); ++member) {
    if (member.key() == "messages") {
      return absl::InvalidArgumentError("template arguments: \"messages\" given twice");
    }
    TUTTI_ASSIGN_OR_RETURN(Value value,
                           Value::FromJson(member.value(), member.key(), /*from_user=*/true));
    variables.emplace_back(member.key(), std::move(value));
  }
  for (const std::string_view name : {"tools", "documents"}) {
    if (!Defines(variables, name)) variables.emplace_back(name, Value());
  }
  if (!Defines(variables, "add_generation_prompt")) {
    variables.emplace_back("add_generation_prompt", Value::Bool(false));
  }
  // After those of the request, which take precedence.
  for (const auto& [name, value] : variables_) variables.emplace_back(name, Value::Literal(value));
  TUTTI_ASSIGN_OR_RETURN(const jinja::Text text,
                         jinja::Evaluate(*parsed_, std::move(variables), now));
  return ToSegments(text);
}

absl::StatusOr<ChatTemplate> LoadChatTemplate(const std::filesystem::path& model_dir,
                                              const std::filesystem::path& given) {
  const std::filesystem::path file = given.empty() ? model_dir / "chat_template.jinja" : given;
  const std::filesystem::path config_file = model_dir / "tokenizer_config.json";
  json config = json::object();
  if (IsThere(config_file)) {
    TUTTI_ASSIGN_OR_RETURN(config, ReadJsonFile(config_file, kTextConfigFileBytesMax));
    if (!config.is_object()) {
      return absl::InvalidArgumentError(config_file.string() + ": not an object");
    }
  }
  if (!given.empty() || IsThere(file)) {
    TUTTI_ASSIGN_OR_RETURN(const std::string source, ReadTextFile(file, kTextConfigFileBytesMax));
    TUTTI_ASSIGN_OR_RETURN(ChatTemplate parsed, ParseFrom(source, file.string()));
    const std::filesystem::path with_tools =
        model_dir / "additional_chat_templates" / "tool_use.jinja";
    if (given.empty() && IsThere(with_tools)) {
      TUTTI_ASSIGN_OR_RETURN(const std::string tools,
                             ReadTextFile(with_tools, kTextConfigFileBytesMax));
      TUTTI_ASSIGN_OR_RETURN(ChatTemplate other, ParseFrom(tools, with_tools.string()));
      parsed.SetToolTemplate(std::move(other));
    }
    SetSpecialTokens(config, &parsed);
    return parsed;
  }
  const auto kind = FindTokenizerKind(model_dir);
  if (kind.ok() && *kind == TokenizerKind::kChatGlm) return ChatTemplate::Parse(kChatGlmTemplate);
  if (kind.ok() && *kind == TokenizerKind::kTiktoken && !config.contains("chat_template")) {
    return ChatTemplate::Parse(kQwenChatTemplate);
  }
  TUTTI_ASSIGN_OR_RETURN(ChatTemplate parsed, FromConfig(config, config_file.string()));
  SetSpecialTokens(config, &parsed);
  return parsed;
}

}  // namespace tutti::text
