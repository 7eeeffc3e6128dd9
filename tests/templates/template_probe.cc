// Renders templates for tests/templates/differential_test.py, which lets Jinja itself do the same.
// One JSON value a line in and out:
//
//   {"template": "...", "tokens": {"bos_token": "<s>"}}      → {} or {"error": "..."}
//   {"messages": [...], "kwargs": {...}, "now": UNIX SECONDS} → {"prompt": "..."} or
//                                                                {"error": "..."}
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "text/chat_template.h"
#include "text/template_json.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json Error(const absl::Status& status) { return {{"error", std::string(status.message())}}; }

Json Parse(const Json& question, std::optional<text::ChatTemplate>* current) {
  auto parsed = text::ChatTemplate::Parse(question["template"].get_ref<const std::string&>());
  current->reset();
  if (!parsed.ok()) return Error(parsed.status());
  *current = std::move(*parsed);
  const Json tokens = question.value("tokens", Json::object());
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    (*current)->SetVariable(token.key(), token.value().get<std::string>());
  }
  return Json::object();
}

Json Render(const Json& question, const text::ChatTemplate& current) {
  const absl::Time now = absl::FromUnixSeconds(question.value("now", int64_t{0}));
  const auto segments = current.Render(question.value("messages", Json::array()),
                                       question.value("kwargs", Json::object()), now);
  if (!segments.ok()) return Error(segments.status());
  std::string prompt;
  for (const text::Segment& segment : *segments) prompt += segment.text;
  return {{"prompt", prompt}};
}

Json Answer(const Json& question, std::optional<text::ChatTemplate>* current) {
  if (!question.is_object()) return {{"error", "not a JSON object"}};
  if (question.contains("template")) return Parse(question, current);
  if (!current->has_value()) return {{"error", "no template"}};
  return Render(question, **current);
}

int Main() {
  std::optional<text::ChatTemplate> current;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << Answer(*text::ParseTemplateJson(line), &current).dump(-1, ' ', true) << "\n"
              << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace tutti

int main() { return tutti::Main(); }
