// `tools`, and the other fields that say what an answer may have beside text.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "gateway/callable_functions.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"
#include "gateway/openai/tool_choice.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

// The members of a function, after those of its tool where it stands by itself.
ToolFunction ReadFunction(FieldReader* named, int64_t* visits_left, Functions* functions) {
  ToolFunction function{.name = named->Text("name").value_or(""),
                        .path = named->PathOf(""),
                        .parameters = named->Find("parameters"),
                        .written = {},
                        .strict = named->Bool("strict")};
  if (function.name.empty()) named->Fail("name", "is missing");
  named->Text("description");
  if (function.parameters != nullptr && !function.parameters->is_object()) {
    named->Fail("parameters", "is not an object");
  }
  named->Ignore({"cache_control"});
  named->RefuseOthers();
  if (named->error().has_value()) return function;
  (*functions)[function.name] = function.parameters == nullptr
                                    ? Parameters()
                                    : ParametersOf(*function.parameters, visits_left);
  return function;
}

// One tool; `flat`: the function's members stand beside the type.
ToolFunction ReadTool(FieldReader* fields, const std::string& path, const Json& value, bool flat,
                      int64_t* visits_left, Functions* functions) {
  FieldReader tool(value, fields->PathOf(path + "."));
  const bool is_function = tool.Text("type") == "function";
  const Json* const inside = flat ? &value : tool.Find("function");
  ToolFunction function;
  if (!is_function || inside == nullptr || !inside->is_object()) {
    fields->Fail(path, "is not a function: others are not served here");
  } else if (flat) {
    function = ReadFunction(&tool, visits_left, functions);
  } else {
    FieldReader named(*inside, tool.PathOf("function."));
    function = ReadFunction(&named, visits_left, functions);
    if (named.error().has_value()) return fields->Fail(*named.error()), function;
    tool.Ignore({"cache_control"});
    tool.RefuseOthers();
  }
  if (tool.error().has_value()) fields->Fail(*tool.error());
  return function;
}

std::vector<ToolFunction> ReadTools(FieldReader* fields, const Json& tools, bool flat,
                                    Functions* functions) {
  std::vector<ToolFunction> read;
  if (!tools.is_array()) fields->Fail("tools", "is not a list");
  int64_t visits_left = kSchemaVisitsMax;
  for (size_t i = 0; i < tools.size() && !fields->error().has_value(); ++i) {
    const std::string path = absl::StrCat("tools[", i, "]");
    if (!tools[i].is_object()) {
      fields->Fail(path, "is not an object");
    } else {
      read.push_back(ReadTool(fields, path, tools[i], flat, &visits_left, functions));
    }
  }
  return read;
}

// The text of each function's schema, as it stands in that of `tools`.
void FindWritten(std::string_view tools, bool flat, std::vector<ToolFunction>* functions) {
  const std::vector<std::string_view> items = ItemsAsWritten(tools);
  if (items.size() != functions->size()) return;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string_view named = flat ? items[i] : MemberAsWritten(items[i], "function");
    (*functions)[i].written = MemberAsWritten(named, "parameters");
  }
}

// Those of the functions that the choice leaves; an error for one that there is not.
std::vector<ToolFunction> Chosen(FieldReader* fields, const CallChoice& choice,
                                 const std::vector<ToolFunction>& functions) {
  if (choice.only.empty()) return functions;
  absl::flat_hash_set<std::string_view> names;
  for (const ToolFunction& function : functions) names.insert(function.name);
  for (const auto& [name, place] : choice.only) {
    if (!names.contains(name)) {
      fields->Fail("tool_choice",
                   absl::StrCat("names no function of tools", place.empty() ? "" : ": ", place));
      return {};
    }
  }
  std::vector<ToolFunction> chosen;
  for (const ToolFunction& function : functions) {
    if (choice.only.contains(function.name)) chosen.push_back(function);
  }
  return chosen;
}

}  // namespace

AnswerWishes ReadWishes(FieldReader* fields, const WishesPlace& place) {
  AnswerWishes wishes;
  const CallChoice choice = ReadCallChoice(fields);
  const Json* tools = fields->Find("tools");
  std::vector<ToolFunction> functions;
  // A request that is refused already is not worth the look.
  if (tools != nullptr && !fields->error().has_value()) {
    functions = ReadTools(fields, *tools, place.flat, &wishes.functions);
  }
  wishes.calls = !choice.none && !functions.empty();
  wishes.forced = choice.forced;
  wishes.named = choice.named;
  wishes.one_call_only = !fields->Bool("parallel_tool_calls").value_or(true);
  wishes.reasoning = fields->Bool("include_reasoning").value_or(true);
  const bool chooses = choice.forced || !choice.only.empty();
  if (chooses && functions.empty()) fields->Fail("tool_choice", "needs functions in tools");
  if (!wishes.calls || fields->error().has_value()) return wishes;
  const bool strict = std::any_of(functions.begin(), functions.end(), [](const auto& function) {
    return function.strict.value_or(false);
  });
  if (!chooses && !strict && !place.beside_format) return wishes;
  FindWritten(MemberAsWritten(place.body, "tools"), place.flat, &functions);
  for (const ToolFunction& function : Chosen(fields, choice, functions)) {
    // Who forces a call means its schema, unless they say otherwise.
    AddCallable(fields, function, function.strict.value_or(choice.forced), &wishes);
    if (fields->error().has_value()) break;
  }
  return wishes;
}

}  // namespace tutti::gateway
