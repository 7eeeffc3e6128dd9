#include "gateway/callable_functions.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gateway/closed_schema.h"
#include "gateway/parse/xml_parameters.h"

namespace tutti::gateway {
namespace {

constexpr char kAnyArguments[] = R"({"type":"object"})";
constexpr char kNoArguments[] = R"({"type":"object","additionalProperties":false})";

// The schema of arguments, which are an object: `type` is put in front where it is not said.
std::string ArgumentsSchema(const Json& schema, std::string_view written) {
  const std::string text = written.empty() ? schema.dump() : std::string(written);
  const std::string closed = ClosedSchema(schema, text);
  if (schema.contains("type")) return closed;
  return absl::StrCat(R"({"type":"object")", schema.empty() ? "" : ",",
                      absl::string_view(closed).substr(1));
}

void AddExact(const ToolFunction& function, const Parameters& types, CallableFunction* callable,
              AnswerWishes* wishes) {
  if (function.parameters == nullptr) {
    callable->json = EbnfJson(kNoArguments);
    callable->xml = "\"\"";
    return;
  }
  const std::string schema = ArgumentsSchema(*function.parameters, function.written);
  callable->json = EbnfJson(schema);
  auto xml = ParametersBySchema(*function.parameters, schema, types, &wishes->definitions_left);
  if (const auto* problem = std::get_if<SchemaProblem>(&xml)) {
    const std::string path = callable->path + "." + problem->path;
    if (!wishes->no_xml.has_value()) wishes->no_xml = BadRequest(path, path + " " + problem->what);
    return;
  }
  auto& parameters = std::get<XmlParameters>(xml);
  callable->xml = std::move(parameters.ebnf);
  for (const std::string& name : parameters.as_json) {
    wishes->functions[function.name][name].is_json = true;
  }
}

}  // namespace

void AddCallable(FieldReader* fields, const ToolFunction& function, bool exact,
                 AnswerWishes* wishes) {
  const std::string path = function.path + "name";
  if (!IsCallableName(function.name)) {
    return fields->Fail(BadRequest(path, path + " has signs that calls have no place for"));
  }
  if (!wishes->callable_names.insert(function.name).second) {
    return fields->Fail(BadRequest(path, path + " is that of another function too"));
  }
  CallableFunction callable{
      .name = function.name, .path = function.path + "parameters", .json = {}, .xml = {}};
  const Parameters& types = wishes->functions[function.name];
  if (!exact) {
    callable.json = EbnfJson(kAnyArguments);
    callable.xml = AnyParameters(types);
  } else {
    const std::string type = callable.path + ".type";
    if (function.parameters != nullptr &&
        function.parameters->value("type", Json("object")) != "object") {
      return fields->Fail(BadRequest(type, type + " must be \"object\": arguments have names"));
    }
    AddExact(function, Parameters(types), &callable, wishes);
  }
  wishes->callable.push_back(std::move(callable));
}

}  // namespace tutti::gateway
