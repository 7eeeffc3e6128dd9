// `tools`, and the other fields that say what an answer may have beside text.
#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"

namespace tutti::gateway {
namespace {

void ReadFunction(FieldReader* fields, const Json& function, int64_t* visits_left,
                  Functions* functions) {
  FieldReader named(function, fields->PathOf("function."));
  const auto name = named.Text("name");
  if (!name.has_value() || name->empty()) named.Fail("name", "is missing");
  named.Text("description");
  // Not enforced, as nowhere else where answers are parsed; SDKs set it by themselves.
  named.Bool("strict");
  const Json* parameters = named.Find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    named.Fail("parameters", "is not an object");
  }
  named.RefuseOthers();
  if (named.error().has_value()) return fields->Fail(*named.error());
  (*functions)[*name] =
      parameters == nullptr ? Parameters() : ParametersOf(*parameters, visits_left);
}

void ReadTools(FieldReader* fields, const Json& tools, Functions* functions) {
  if (!tools.is_array()) return fields->Fail("tools", "is not a list");
  int64_t visits_left = kSchemaVisitsMax;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = absl::StrCat("tools[", i, "]");
    if (!tools[i].is_object()) return fields->Fail(path, "is not an object");
    FieldReader tool(tools[i], absl::StrCat(fields->PathOf(path), "."));
    const Json* function = tool.Find("function");
    if (tool.Text("type") != "function" || function == nullptr || !function->is_object()) {
      return fields->Fail(path, "is not a function: others are not served here");
    }
    ReadFunction(&tool, *function, &visits_left, functions);
    tool.RefuseOthers();
    if (tool.error().has_value()) return fields->Fail(*tool.error());
  }
}

// False: no calls are wanted.
bool ReadChoice(FieldReader* fields) {
  const Json* choice = fields->Find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  fields->Fail("tool_choice",
               "is not served here yet but for \"auto\" and \"none\": nothing makes the model call "
               "a function");
  return false;
}

}  // namespace

AnswerWishes ReadWishes(FieldReader* fields) {
  AnswerWishes wishes;
  const Json* tools = fields->Find("tools");
  // A request that is refused already is not worth the look.
  if (tools != nullptr && !fields->error().has_value()) {
    ReadTools(fields, *tools, &wishes.functions);
  }
  wishes.calls = ReadChoice(fields) && !wishes.functions.empty();
  wishes.one_call_only = !fields->Bool("parallel_tool_calls").value_or(true);
  wishes.reasoning = fields->Bool("include_reasoning").value_or(true);
  return wishes;
}

}  // namespace tutti::gateway
