#include "gateway/grammar_fields.h"

#include <optional>
#include <utility>
#include <vector>

#include "gateway/closed_schema.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

// vLLM's names before its 0.12, and those of other servers: where they are ignored an answer is
// wrong without a word.
constexpr UnservedField kOldNames[] = {
    {.name = "guided_json", .instead = "structured_outputs.json"},
    {.name = "guided_regex", .instead = "structured_outputs.regex"},
    {.name = "guided_choice", .instead = "structured_outputs.choice"},
    {.name = "guided_grammar", .instead = "structured_outputs.grammar"},
    {.name = "guided_json_object", .instead = "structured_outputs.json_object"},
    {.name = "guided_whitespace_pattern", .instead = "structured_outputs.disable_any_whitespace"},
    {.name = "guided_decoding_backend"},
    {.name = "guided_decoding", .instead = "structured_outputs"},
    {.name = "structural_tag"},
    {.name = "json_schema", .instead = "response_format"},
    {.name = "grammar", .instead = "structured_outputs.grammar"},
    {.name = "regex", .instead = "structured_outputs.regex"},
    {.name = "ebnf", .instead = "structured_outputs.grammar"},
};

// The schema's text, with no members in its objects but those that it names.
std::string SchemaText(const Json& schema, std::string_view written) {
  if (!written.empty()) return ClosedSchema(schema, written);
  return ClosedSchema(schema, schema.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The members of a format of type json_schema: the schema, and what only names it.
std::string ReadNamedSchema(FieldReader* named, std::string_view written, v1::Grammar* grammar) {
  named->Text("name");
  named->Text("description");
  named->Bool("strict");  // it is enforced in either case
  const Json* const schema = named->Find("schema");
  if (schema == nullptr || !schema->is_object()) {
    named->Fail("schema", schema == nullptr ? "is missing" : "is not an object");
    return "";
  }
  grammar->set_json_schema(SchemaText(*schema, MemberAsWritten(written, "schema")));
  return named->PathOf("schema");
}

std::string ReadSchemaInside(FieldReader* format, std::string_view written, v1::Grammar* grammar) {
  const Json* const inside = format->Find("json_schema");
  if (inside == nullptr || !inside->is_object()) {
    format->Fail("json_schema", inside == nullptr ? "is missing" : "is not an object");
    return "";
  }
  FieldReader named(*inside, format->PathOf("json_schema."));
  std::string path = ReadNamedSchema(&named, MemberAsWritten(written, "json_schema"), grammar);
  named.RefuseOthers();
  if (named.error().has_value()) format->Fail(*named.error());
  return path;
}

void ReadSchema(FieldReader* fields, const Json& json, std::string_view written,
                v1::Grammar* grammar) {
  const bool closed = fields->Bool("disable_additional_properties").value_or(true);
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    grammar->set_json_schema(closed ? ClosedSchemaText(text) : text);
  } else if (!json.is_object()) {
    fields->Fail("json", "is neither an object nor a text");
  } else {
    grammar->set_json_schema(closed || written.empty() ? SchemaText(json, written)
                                                       : std::string(written));
  }
}

// Each that it has; the last one found is the grammar's source.
std::vector<std::string> ReadSources(FieldReader* fields, std::string_view written,
                                     v1::Grammar* grammar) {
  std::vector<std::string> found;
  if (const Json* const json = fields->Find("json")) {
    found.emplace_back("json");
    ReadSchema(fields, *json, MemberAsWritten(written, "json"), grammar);
  }
  if (const auto regex = fields->Text("regex")) {
    found.emplace_back("regex");
    grammar->set_regex(*regex);
  }
  if (const Json* const choice = fields->Find("choice")) {
    found.emplace_back("choice");
    if (choice->is_string()) fields->Fail("choice", "is not a list of texts");
    for (const std::string& text : fields->Texts("choice").value_or(std::vector<std::string>())) {
      grammar->mutable_choice()->add_texts(text);
    }
    grammar->mutable_choice();
  }
  if (const auto rules = fields->Text("grammar")) {
    found.emplace_back("grammar");
    grammar->set_ebnf(*rules);
  }
  if (fields->Bool("json_object").value_or(false)) {
    found.emplace_back("json_object");
    grammar->mutable_json_object();
  }
  return found;
}

std::string ReadStructuredOutputs(FieldReader* fields, std::string_view body,
                                  const std::string& format, v1::GenerateRequest* call) {
  constexpr std::string_view kName = "structured_outputs";
  const Json* const value = fields->Find(kName);
  if (value == nullptr || (value->is_object() && value->empty())) return "";
  if (!value->is_object()) {
    fields->Fail(kName, "is not an object");
    return "";
  }
  FieldReader inner(*value, fields->PathOf("structured_outputs."));
  v1::Grammar grammar;
  const std::vector<std::string> found =
      ReadSources(&inner, MemberAsWritten(body, kName), &grammar);
  const auto compact = inner.Bool("disable_any_whitespace");
  inner.Refuse({.name = "whitespace_pattern", .instead = "disable_any_whitespace"});
  inner.Bool("disable_additional_properties");
  inner.Refuse({.name = "structural_tag"});
  inner.Refuse({.name = "backend", .harmless = "*"});
  inner.RefuseOthers();
  if (inner.error().has_value()) {
    fields->Fail(*inner.error());
    return "";
  }
  if (found.size() > 1) {
    fields->Fail(kName, "has both " + found[0] + " and " + found[1] + ": only one can be served");
  } else if (found.empty() && format.empty()) {
    fields->Fail(kName, "has none of json, regex, choice, grammar and json_object");
  } else if (!found.empty() && !format.empty()) {
    fields->Fail(kName, "cannot be served beside " + format);
  }
  if (!found.empty()) *call->mutable_grammar() = std::move(grammar);
  // Small models write blanks for ever: they are for those who ask for them.
  if (compact.has_value() && !*compact) {
    call->mutable_grammar()->set_whitespace(v1::GRAMMAR_WHITESPACE_BOUNDED);
  }
  return found.empty() ? "" : inner.PathOf(found.front());
}

}  // namespace

std::string ReadFormat(FieldReader* fields, std::string_view name, std::string_view written,
                       bool flat, v1::GenerateRequest* call) {
  const Json* const value = fields->Find(name);
  if (value == nullptr) return "";
  if (!value->is_object()) {
    fields->Fail(name, "is not an object");
    return "";
  }
  FieldReader format(*value, fields->PathOf(std::string(name) + "."));
  const std::string type = format.Text("type").value_or("");
  std::string path;
  if (type == "json_schema") {
    path = flat ? ReadNamedSchema(&format, written, call->mutable_grammar())
                : ReadSchemaInside(&format, written, call->mutable_grammar());
  } else if (type == "json_object") {
    call->mutable_grammar()->mutable_json_object();
    path = fields->PathOf(name);
  } else if (type != "text") {
    format.Fail("type", R"(must be "text", "json_object" or "json_schema")");
  }
  format.RefuseOthers();
  if (format.error().has_value()) fields->Fail(*format.error());
  return path;
}

std::string ReadGrammarFields(FieldReader* fields, std::string_view body,
                              v1::GenerateRequest* call) {
  for (const UnservedField& field : kOldNames) fields->Refuse(field);
  constexpr std::string_view kFormat = "response_format";
  const bool has_format = fields->Find(kFormat) != nullptr;
  const std::string format =
      ReadFormat(fields, kFormat, has_format ? MemberAsWritten(body, kFormat) : "",
                 /*flat=*/false, call);
  const std::string outputs = ReadStructuredOutputs(fields, body, format, call);
  return format.empty() ? outputs : format;
}

std::string ClosedSchemaText(const std::string& schema) {
  const auto parsed = ParseObject(schema);
  const auto* const json = std::get_if<ParsedJson>(&parsed);
  return json == nullptr ? schema : ClosedSchema(**json, schema);
}

bool IsJson(const v1::Grammar& grammar) {
  return grammar.has_json_schema() || grammar.has_json_object();
}

void AddGrammarPaths(const std::string& path, FieldPaths* paths) {
  for (const char* const ours :
       {"grammar.json_schema", "grammar.json_object", "grammar.regex", "grammar.choice.texts",
        "grammar.choice", "grammar.ebnf", "grammar"}) {
    paths->emplace_back(ours, path);
  }
}

std::string GrammarPath(std::string_view ours, std::string_view path) {
  constexpr std::string_view kText = "grammar.choice.texts";
  if (!ours.starts_with(kText)) return std::string(path);
  return std::string(path).append(ours.substr(kText.size()));
}

}  // namespace tutti::gateway
