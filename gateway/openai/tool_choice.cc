// `tool_choice`: whether, and which, functions are to be called.
#include "gateway/openai/tool_choice.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

// {"type": "function", "function": {"name": NAME}}, or with the name beside the type.
std::optional<std::string> ReadNamed(FieldReader* choice) {
  std::optional<std::string> name;
  if (const Json* const function = choice->Find("function")) {
    if (!function->is_object()) {
      choice->Fail("function", "is not an object");
      return std::nullopt;
    }
    FieldReader inner(*function, choice->PathOf("function."));
    name = inner.Text("name");
    if (!name.has_value()) inner.Fail("name", "is missing");
    inner.RefuseOthers();
    if (inner.error().has_value()) choice->Fail(*inner.error());
  } else {
    name = choice->Text("name");
    if (!name.has_value()) choice->Fail("name", "is missing");
  }
  choice->RefuseOthers();
  return name;
}

void ReadAllowed(FieldReader* allowed, CallChoice* choice) {
  const std::string mode = allowed->Text("mode").value_or("");
  if (mode != "auto" && mode != "required") {
    allowed->Fail("mode", R"(must be "auto" or "required")");
  }
  choice->forced = mode == "required";
  const Json* const tools = allowed->Find("tools");
  if (tools == nullptr || !tools->is_array() || tools->empty()) {
    return allowed->Fail("tools", "must be a list of functions");
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = absl::StrCat("tools[", i, "]");
    if (!(*tools)[i].is_object()) return allowed->Fail(path, "is not an object");
    FieldReader tool((*tools)[i], allowed->PathOf(path + "."));
    if (tool.Text("type") != "function") tool.Fail("type", R"(must be "function")");
    if (auto name = ReadNamed(&tool)) choice->only.emplace(*std::move(name), path);
    if (tool.error().has_value()) return allowed->Fail(*tool.error());
  }
  allowed->RefuseOthers();
}

void ReadObject(FieldReader* inner, CallChoice* choice) {
  const std::string type = inner->Text("type").value_or("");
  if (type == "function") {
    choice->forced = choice->named = true;
    if (auto name = ReadNamed(inner)) choice->only.emplace(*std::move(name), "");
    return;
  }
  if (type != "allowed_tools") {
    return inner->Fail("type", R"(must be "function" or "allowed_tools")");
  }
  const Json* const inside = inner->Find("allowed_tools");
  if (inside == nullptr) return ReadAllowed(inner, choice);
  if (!inside->is_object()) return inner->Fail("allowed_tools", "is not an object");
  FieldReader allowed(*inside, inner->PathOf("allowed_tools."));
  ReadAllowed(&allowed, choice);
  inner->RefuseOthers();
  if (allowed.error().has_value()) inner->Fail(*allowed.error());
}

}  // namespace

CallChoice ReadCallChoice(FieldReader* fields) {
  CallChoice choice;
  const Json* const value = fields->Find("tool_choice");
  if (value == nullptr || *value == "auto") return choice;
  choice.none = *value == "none";
  choice.forced = *value == "required";
  if (choice.none || choice.forced) return choice;
  if (!value->is_object()) {
    fields->Fail("tool_choice", R"(must be "auto", "none", "required" or an object)");
    return choice;
  }
  FieldReader inner(*value, fields->PathOf("tool_choice."));
  ReadObject(&inner, &choice);
  if (inner.error().has_value()) fields->Fail(*inner.error());
  return choice;
}

}  // namespace tutti::gateway
