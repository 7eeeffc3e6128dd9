// map, select, reject and their kin: a filter or test for each item.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

// The function that map calls for each item.
struct Mapping {
  const Builtin* filter = nullptr;  // null: the attribute
  CallArguments arguments;
  Value attribute;
  Value fallback;
  bool has_fallback = false;

  absl::StatusOr<Value> Apply(const Value& item, Work* work) const {
    if (filter != nullptr) return CallBuiltin(*filter, item, arguments, work);
    return FollowAttribute(item, attribute, has_fallback ? &fallback : nullptr, work);
  }
};

absl::StatusOr<Mapping> ReadMapping(const Call& call) {
  Mapping mapping;
  const bool positional = !call.names.empty() && call.names[0].empty();
  if (positional) {
    const Value& name = call.values[0];
    mapping.filter = name.IsStr() ? FindFilter(name.str()) : nullptr;
    if (mapping.filter == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no filter named '", name.IsStr() ? Absl(name.str()) : Absl(name.TypeName()), "'"));
    }
  }
  bool has_attribute = false;
  for (size_t i = positional ? 1 : 0; i < call.values.size(); ++i) {
    const std::string& name = call.names[i];
    if (name.empty()) {
      mapping.arguments.positional.push_back(call.values[i]);
    } else if (mapping.filter != nullptr) {
      mapping.arguments.named.emplace_back(name, call.values[i]);
    } else if (name == "attribute") {
      mapping.attribute = call.values[i];
      has_attribute = true;
    } else if (name == "default") {
      mapping.fallback = call.values[i];
      mapping.has_fallback = !mapping.fallback.IsNone();
    } else {
      return absl::InvalidArgumentError(absl::StrCat("Unexpected keyword argument '", name, "'"));
    }
  }
  if (mapping.filter == nullptr && !has_attribute) {
    return absl::InvalidArgumentError("map requires a filter argument");
  }
  return mapping;
}

absl::StatusOr<Value> Map(const Value& self, const Call& call) {
  if (!self.Truth()) return Generator::Make({});  // none of something false, whatever its type
  if (!IsIterable(self)) return Generator::Make({}, TypeError(self, "is not iterable"));
  const auto items = Iterate(self, call.work);
  if (!items.ok()) return LateError(items.status());
  absl::StatusOr<Mapping> mapping = ReadMapping(call);
  if (!mapping.ok()) return Generator::Make({}, mapping.status());
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues((*items)->items.size()));
  std::vector<Value> out;
  for (const Value& item : (*items)->items) {
    absl::StatusOr<Value> mapped = mapping->Apply(item, call.work);
    if (absl::IsResourceExhausted(mapped.status())) return mapped.status();
    if (!mapped.ok()) return Generator::Make(std::move(out), mapped.status());
    out.push_back(*std::move(mapped));
  }
  return Generator::Make(std::move(out));
}

// Whether the test, or else the truth, of an item holds.
struct Selection {
  const Builtin* test = nullptr;
  CallArguments arguments;
  Value attribute;  // None: the item itself

  absl::StatusOr<bool> Holds(const Value& item, Work* work) const {
    TUTTI_ASSIGN_OR_RETURN(const Value subject, FollowAttribute(item, attribute, nullptr, work));
    if (test == nullptr) return subject.Truth();
    TUTTI_ASSIGN_OR_RETURN(const Value result, CallBuiltin(*test, subject, arguments, work));
    return result.Truth();
  }
};

absl::StatusOr<Selection> ReadSelection(const Call& call, bool of_attribute) {
  Selection selection;
  size_t at = 0;
  if (of_attribute) {
    if (call.names.empty() || !call.names[0].empty()) {
      return absl::InvalidArgumentError("Missing parameter for attribute name");
    }
    selection.attribute = call.values[at++];
  }
  if (at < call.values.size() && call.names[at].empty()) {
    const Value& name = call.values[at++];
    selection.test = name.IsStr() ? FindTest(name.str()) : nullptr;
    if (selection.test == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no test named '", name.IsStr() ? Absl(name.str()) : Absl(name.TypeName()), "'"));
    }
  }
  for (; at < call.values.size(); ++at) {
    if (call.names[at].empty()) {
      selection.arguments.positional.push_back(call.values[at]);
    } else {
      selection.arguments.named.emplace_back(call.names[at], call.values[at]);
    }
  }
  return selection;
}

template <bool wanted, bool of_attribute>
absl::StatusOr<Value> Select(const Value& self, const Call& call) {
  if (!self.Truth()) return Generator::Make({});  // none of something false, whatever its type
  if (!IsIterable(self)) return Generator::Make({}, TypeError(self, "is not iterable"));
  const auto items = Iterate(self, call.work);
  if (!items.ok()) return LateError(items.status());
  const absl::StatusOr<Selection> selection = ReadSelection(call, of_attribute);
  if (!selection.ok()) return Generator::Make({}, selection.status());
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues((*items)->items.size()));
  std::vector<Value> out;
  for (const Value& item : (*items)->items) {
    const absl::StatusOr<bool> holds = selection->Holds(item, call.work);
    if (absl::IsResourceExhausted(holds.status())) return holds.status();
    if (!holds.ok()) return Generator::Make(std::move(out), holds.status());
    if (*holds == wanted) out.push_back(item);
  }
  return Generator::Make(std::move(out));
}

}  // namespace

const std::vector<Builtin>& SelectFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {.name = "map", .function = Map, .more = true},
      {.name = "reject", .function = Select<false, false>, .more = true},
      {.name = "rejectattr", .function = Select<false, true>, .more = true},
      {.name = "select", .function = Select<true, false>, .more = true},
      {.name = "selectattr", .function = Select<true, true>, .more = true},
  };
  return *table;
}

}  // namespace tutti::text::jinja
