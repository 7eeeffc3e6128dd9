#include "gateway/document/open_api.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/check.h"

namespace tutti::gateway {
namespace {

using UseKind = FieldUse::Kind;

OrderedJson AnyOf(std::vector<OrderedJson> schemas) {
  if (schemas.empty()) return OrderedJson::object();
  if (schemas.size() == 1) return std::move(schemas.front());
  return {{"anyOf", std::move(schemas)}};
}

OrderedJson ListOf(OrderedJson items) { return {{"type", "array"}, {"items", std::move(items)}}; }

OrderedJson IntegerSchema(const FieldUse& use) {
  OrderedJson schema = {{"type", "integer"}};
  // Those of a type say nothing.
  if (use.min > -std::numeric_limits<int32_t>::max()) schema["minimum"] = use.min;
  if (use.max < std::numeric_limits<int32_t>::max()) schema["maximum"] = use.max;
  return schema;
}

class SchemaMaker {
 public:
  explicit SchemaMaker(const BodyFields& fields) : fields_(fields) {}

  // Of the object at `path`, "" for the body.
  OrderedJson Object(const std::string& path) const {
    OrderedJson schema = {{"type", "object"}};
    OrderedJson properties = OrderedJson::object();
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [name, use] : fields_.uses) {
      if (!absl::StartsWith(name, prefix)) continue;
      const std::string rest = name.substr(prefix.size());
      if (rest.find('.') != std::string::npos) continue;
      properties[rest] = Field(name, use);
      const bool has_words = path.empty() || path == "sampling_params";
      const auto words = has_words ? FieldWords().find(rest) : FieldWords().end();
      if (words != FieldWords().end() && use.kind > UseKind::kRefused) {
        properties[rest]["description"] = words->second;
      }
    }
    if (!properties.empty()) schema["properties"] = std::move(properties);
    if (path.empty() && !fields_.required.empty()) {
      schema["required"] =
          std::vector<std::string>(fields_.required.begin(), fields_.required.end());
    }
    if (fields_.closed.count(path) > 0) schema["additionalProperties"] = false;
    return schema;
  }

 private:
  OrderedJson Field(const std::string& path, const FieldUse& use) const {
    switch (use.kind) {
      case UseKind::kIgnored:
        return {{"description", "No answer depends on it"}, {"x-tutti-ignored", true}};
      case UseKind::kRefused:
        return Refused(use);
      case UseKind::kBool:
        return {{"type", "boolean"}};
      case UseKind::kInteger:
        return IntegerSchema(use);
      case UseKind::kNumber:
        return {{"type", "number"}};
      case UseKind::kText:
        return {{"type", "string"}};
      case UseKind::kIds:
        return ListOf({{"type", "integer"}});
      case UseKind::kTexts:
        return AnyOf({{{"type", "string"}}, ListOf({{"type", "string"}})});
      case UseKind::kAny:
        break;
    }
    std::vector<OrderedJson> schemas;
    for (const std::string& form : use.forms) schemas.push_back(Form(path, form));
    return AnyOf(std::move(schemas));
  }

  static OrderedJson Refused(const FieldUse& use) {
    std::string words = "Not served: leave it out";
    if (use.harmless != "null") absl::StrAppend(&words, ", or say ", use.harmless);
    if (!use.instead.empty()) absl::StrAppend(&words, "; say ", use.instead, " in its place");
    return {{"description", words}, {"x-tutti-refused", true}};
  }

  OrderedJson Form(const std::string& path, std::string_view form) const {
    constexpr std::string_view kList = "array of ";
    if (form.starts_with(kList)) {
      return ListOf(Form(path + "[]", form.substr(kList.size())));
    }
    if (form == "object") return Object(path);
    return {{"type", form}};
  }

  const BodyFields& fields_;
};

OrderedJson Operation(const DocumentedPath& path) {
  OrderedJson operation = {{"summary", path.words}};
  if (path.path.ends_with("{name}")) {
    operation["parameters"] = {
        {{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}};
  }
  if (!path.body.empty()) {
    const std::string schema = absl::StrCat("#/components/schemas/", std::string(path.body));
    operation["requestBody"] = {
        {"required", true}, {"content", {{"application/json", {{"schema", {{"$ref", schema}}}}}}}};
  }
  OrderedJson content = {{std::string(path.content), OrderedJson::object()}};
  // Those that take stream: true.
  if (!path.body.empty() && path.path.find("token") == std::string_view::npos) {
    content["text/event-stream"] = OrderedJson::object();
  }
  operation["responses"] = {{"200", {{"description", "Good"}, {"content", std::move(content)}}},
                            {"default", {{"description", "An error, which names the field"}}}};
  if (path.caller == DocumentedPath::Caller::kAnybody) {
    operation["security"] = OrderedJson::array();
  }
  operation["x-tutti-caller"] = path.caller == DocumentedPath::Caller::kAnybody    ? "anybody"
                                : path.caller == DocumentedPath::Caller::kOperator ? "operator"
                                                                                   : "key";
  return operation;
}

// Whether no example is taken without the field.
bool IsRequired(const DocumentedBody& body, const std::string& name) {
  for (const Json& example : body.examples) {
    Json without = example;
    without.erase(name);
    const auto error = body.read(without);
    if (!error.has_value() || error->param != name) return false;
  }
  return true;
}

}  // namespace

BodyFields FieldsOf(const DocumentedBody& body) {
  BodyFields fields;
  {
    const FieldLog log;
    for (const Json& example : body.examples) {
      CHECK(!body.read(example).has_value());
    }
    fields.uses = log.uses();
    fields.closed = log.closed();
  }
  for (const auto& [name, use] : fields.uses) {
    if (name.find_first_of(".[") == std::string::npos && IsRequired(body, name)) {
      fields.required.insert(name);
    }
  }
  return fields;
}

std::string OpenApiDocument() {
  OrderedJson schemas = OrderedJson::object();
  for (const DocumentedBody& body : DocumentedBodies()) {
    schemas[std::string(body.name)] = SchemaMaker(FieldsOf(body)).Object("");
  }
  OrderedJson paths = OrderedJson::object();
  for (const DocumentedPath& path : DocumentedPaths()) {
    paths[std::string(path.path)][path.method == "GET" ? "get" : "post"] = Operation(path);
  }
  const OrderedJson document = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Tutti"}, {"version", std::string(BuildStamp())}}},
      {"security", {{{"key", OrderedJson::array()}}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", std::move(schemas)},
        {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return Dump(document);
}

}  // namespace tutti::gateway
