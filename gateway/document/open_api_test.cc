#include "gateway/document/open_api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace tutti::gateway {
namespace {

using TestedKind = FieldUse::Kind;

bool IsOfBody(const std::string& path) { return path.find_first_of(".[") == std::string::npos; }

// What is said of the field with that value in the body's first example.
std::optional<ApiError> SaidOf(const DocumentedBody& body, const std::string& name,
                               const Json& value) {
  Json changed = body.examples.front();
  changed[name] = value;
  return body.read(changed);
}

// In each of the examples, which may be of different kinds.
bool IsUnknown(const DocumentedBody& body, const std::string& name) {
  return std::all_of(body.examples.begin(), body.examples.end(), [&](Json example) {
    example[name] = "x";
    const auto error = body.read(example);
    return error.has_value() && absl::StrContains(error->message, "is no field");
  });
}

TEST(OpenApi, ReadersKnowTheFieldsOfTheDocumentAndNoOthers) {
  std::set<std::string> all = {"made_up"};
  for (const DocumentedBody& body : DocumentedBodies()) {
    for (const auto& [path, use] : FieldsOf(body).uses) {
      if (IsOfBody(path)) all.insert(path);
    }
  }
  EXPECT_GT(all.size(), 100u);
  for (const DocumentedBody& body : DocumentedBodies()) {
    const BodyFields fields = FieldsOf(body);
    EXPECT_TRUE(fields.closed.contains("")) << body.name;
    for (const std::string& name : all) {
      EXPECT_EQ(IsUnknown(body, name), !fields.uses.contains(name)) << body.name << " " << name;
    }
  }
}

// Texts by which readers choose what they look for.
const std::vector<std::string> kChoosing = {
    "function",     "allowed_tools",  "auto",
    "none",         "required",       "any",
    "tool",         "text",           "json_object",
    "json_schema",  "input_text",     "output_text",
    "summary_text", "reasoning_text", "reasoning",
    "message",      "function_call",  "function_call_output",
    "thinking",     "tool_use",       "tool_result",
    "custom",       "enabled",        "disabled",
    "adaptive",     "system",         "user",
    "assistant",    "developer",      "ephemeral"};

// Calls `visit` with the body less one member, for each that it has at whatever depth, and with one
// text changed into another.
template <class Visit>
void VisitVariants(const Json& body, const Visit& visit) {
  const Json flat = body.flatten();
  std::set<std::string> places;
  for (const auto& [pointer, value] : flat.items()) {
    for (size_t end = pointer.find('/', 1); end != std::string::npos;
         end = pointer.find('/', end + 1)) {
      places.insert(pointer.substr(0, end));
    }
    places.insert(pointer);
    const std::string name = pointer.substr(pointer.rfind('/') + 1);
    const bool chooses =
        name == "type" || name == "mode" || name == "role" || name == "tool_choice";
    if (!value.is_string() || !chooses) continue;
    for (const std::string& text : kChoosing) {
      Json changed = body;
      changed[Json::json_pointer(pointer)] = text;
      visit(changed);
    }
  }
  for (const std::string& place : places) {
    const Json::json_pointer pointer(place);
    if (!body[pointer.parent_pointer()].is_object()) continue;
    Json changed = body;
    changed[pointer.parent_pointer()].erase(pointer.back());
    visit(changed);
  }
}

TEST(OpenApi, ReadersLookForNoOtherFieldsInsideWhateverIsGiven) {
  std::set<std::string> lacking;
  int variants = 0;
  for (const DocumentedBody& body : DocumentedBodies()) {
    const BodyFields documented = FieldsOf(body);
    for (const Json& example : body.examples) {
      VisitVariants(example, [&](const Json& changed) {
        ++variants;
        const FieldLog log;
        (void)body.read(changed);
        for (const auto& [path, use] : log.uses()) {
          if (!documented.uses.contains(path)) lacking.insert(std::string(body.name) + ": " + path);
        }
      });
    }
  }
  EXPECT_GT(variants, 1000);
  EXPECT_EQ(lacking, std::set<std::string>());
}

// A value that no field of the kind takes; null: they all are taken.
Json WrongFor(const FieldUse& use) {
  switch (use.kind) {
    case TestedKind::kIgnored:
      return nullptr;
    case TestedKind::kRefused:
      return {{"x", 1}};
    case TestedKind::kInteger:
      return 0.5;
    case TestedKind::kBool:
    case TestedKind::kNumber:
      return "x";
    case TestedKind::kText:
    case TestedKind::kIds:
    case TestedKind::kTexts:
      return 1;
    case TestedKind::kAny:
      return use.forms.contains("integer") ? Json(false) : Json(1);
  }
  return nullptr;
}

TEST(OpenApi, ValuesOfAnotherTypeAreRefusedByName) {
  for (const DocumentedBody& body : DocumentedBodies()) {
    for (const auto& [name, use] : FieldsOf(body).uses) {
      if (!IsOfBody(name)) continue;
      const Json wrong = WrongFor(use);
      const auto error = SaidOf(body, name, wrong.is_null() ? Json({{"x", 1}}) : wrong);
      ASSERT_EQ(error.has_value(), !wrong.is_null()) << body.name << " " << name;
      if (error.has_value()) {
        EXPECT_EQ(error->param, name) << body.name << ": " << error->message;
      }
    }
  }
}

TEST(OpenApi, RangesAreThoseOfTheReaders) {
  for (const DocumentedBody& body : DocumentedBodies()) {
    for (const auto& [name, use] : FieldsOf(body).uses) {
      if (!IsOfBody(name) || use.kind != TestedKind::kInteger || use.max > INT64_MAX - 2) continue;
      for (const int64_t value : {use.min - 1, use.max + 1}) {
        const auto error = SaidOf(body, name, value);
        ASSERT_TRUE(error.has_value()) << body.name << " " << name << " " << value;
        EXPECT_EQ(error->param, name) << error->message;
      }
    }
  }
}

TEST(OpenApi, EveryFieldThatIsServedHasWordsAndEveryFormOfIt) {
  std::set<std::string_view> served;
  for (const DocumentedBody& body : DocumentedBodies()) {
    for (const auto& [path, use] : FieldsOf(body).uses) {
      if (use.kind <= TestedKind::kRefused) continue;
      EXPECT_FALSE(use.kind == TestedKind::kAny && use.forms.empty()) << body.name << " " << path;
      const bool is_param = path.starts_with("sampling_params.") && IsOfBody(path.substr(16));
      if (!IsOfBody(path) && !is_param) continue;
      const auto words = FieldWords().find(is_param ? path.substr(16) : path);
      ASSERT_NE(words, FieldWords().end()) << path;
      served.insert(words->first);
    }
  }
  EXPECT_EQ(served.size(), FieldWords().size());
}

TEST(OpenApi, SaysWhatIsInside) {
  Json document = Json::parse(OpenApiDocument());
  const Json& chat = document["components"]["schemas"]["ChatRequest"];
  EXPECT_EQ(chat["required"], Json({"messages"}));
  EXPECT_EQ(chat["additionalProperties"], false);
  const Json& message = chat["properties"]["messages"]["items"];
  EXPECT_EQ(message["properties"]["role"]["type"], "string");
  EXPECT_EQ(message["additionalProperties"], false);
  const Json& content = message["properties"]["content"]["anyOf"];
  ASSERT_EQ(content.size(), 2u) << content;
  EXPECT_EQ(content[0]["items"]["properties"]["text"]["type"], "string");
  EXPECT_EQ(content[1]["type"], "string");
  EXPECT_EQ(chat["properties"]["n"]["minimum"], 1);
  EXPECT_EQ(chat["properties"]["user"]["x-tutti-ignored"], true);
  const auto streams = [&](const char* path) {
    return document["paths"][path]["post"]["responses"]["200"]["content"].contains(
        "text/event-stream");
  };
  EXPECT_TRUE(streams("/v1/chat/completions"));
  EXPECT_FALSE(streams("/tokenize"));
  EXPECT_EQ(chat["properties"]["audio"]["x-tutti-refused"], true);
}

}  // namespace
}  // namespace tutti::gateway
