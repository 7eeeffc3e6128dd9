#include "grammar/json_tree.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

using nlohmann::json;

std::string_view NameAt(const JsonValue& object, uint32_t index) {
  return object.members[index].name;
}

// Builds the tree from the parser's events, so that nothing is held beyond the limits.
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  explicit TreeBuilder(BuildWork* work) : work_(*work) {}

  JsonValue& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Add({}); }
  bool boolean(bool value) override {
    return Add({.kind = JsonValue::Kind::kBoolean, .boolean = value});
  }
  bool number_integer(number_integer_t value) override { return Number(Concat(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Number(Concat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Number(text); }
  bool string(string_t& value) override {
    return Add({.kind = JsonValue::Kind::kString, .text = std::move(value)});
  }
  bool binary(binary_t&) override { return Fail("holds binary data"); }
  bool start_object(size_t) override { return Open(JsonValue::Kind::kObject); }
  bool start_array(size_t) override { return Open(JsonValue::Kind::kArray); }
  bool end_array() override {
    JsonValue& array = *open_.back();
    for (const JsonValue& item : array.items) array.weight += item.weight;
    return Close();
  }

  bool key(string_t& name) override {
    open_.back()->members.push_back({std::move(name), {}});
    return true;
  }

  bool end_object() override {
    JsonValue& object = *open_.back();
    const auto look = static_cast<uint32_t>(4 + std::bit_width(object.members.size()));
    work_.Add(static_cast<int64_t>(look * object.members.size()));
    for (const JsonValue::Member& member : object.members) {
      object.name_bits |= JsonValue::NameBit(member.name);
      object.weight += look + static_cast<uint32_t>(member.name.size() / 8) + member.value.weight;
    }
    for (uint32_t i = 0; i < object.members.size(); ++i) object.by_name.push_back(i);
    std::sort(object.by_name.begin(), object.by_name.end(),
              [&](uint32_t a, uint32_t b) { return NameAt(object, a) < NameAt(object, b); });
    for (size_t i = 1; i < object.by_name.size(); ++i) {
      const std::string_view name = NameAt(object, object.by_name[i]);
      if (name == NameAt(object, object.by_name[i - 1])) {
        return Fail(Concat("key ", JsonStringText(name.substr(0, 100)), " twice"));
      }
    }
    return Close();
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Fail(Concat("not JSON at byte ", position));
  }

 private:
  bool Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  bool Number(std::string text) {
    if (text.size() > kNumberCharactersMax) {
      return Fail(Concat("a number of more than ", kNumberCharactersMax, " characters"));
    }
    return Add({.kind = JsonValue::Kind::kNumber, .text = std::move(text)});
  }

  JsonValue* Place(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    JsonValue& parent = *open_.back();
    if (parent.is(JsonValue::Kind::kArray)) return &parent.items.emplace_back(std::move(value));
    return &(parent.members.back().value = std::move(value));
  }

  bool Count() {
    if (++values_ > kSourceValuesMax) {
      return Fail(Concat("more than ", kSourceValuesMax, " values"));
    }
    return work_.Spend(10).ok() || Fail("");
  }

  bool Add(JsonValue value) {
    value.weight = static_cast<uint32_t>(2 + value.text.size() / 8);
    Place(std::move(value));
    return Count();
  }

  bool Open(JsonValue::Kind kind) {
    if (open_.size() >= static_cast<size_t>(kSourceDepthMax)) {
      return Fail(Concat("nested deeper than ", kSourceDepthMax));
    }
    open_.push_back(Place({.kind = kind, .weight = 2}));
    return Count();
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  // Stays valid while its parent grows only at its end: a container is open only while it is its
  // parent's last value.
  std::vector<JsonValue*> open_;
  BuildWork& work_;
  size_t values_ = 0;
  std::string error_;
};

void AppendJson(const JsonValue& value, std::string* out) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      *out += "null";
      return;
    case JsonValue::Kind::kBoolean:
      *out += value.boolean ? "true" : "false";
      return;
    case JsonValue::Kind::kNumber: {
      const Decimal decimal = ToDecimal(value.text);
      if (!decimal.is_integer() || decimal.exponent > kNumberDigitsMax) {
        *out += value.text;
      } else {
        const size_t zeros = decimal.digits.empty() ? 1 : static_cast<size_t>(decimal.exponent);
        *out += Concat(decimal.negative ? "-" : "", decimal.digits, std::string(zeros, '0'));
      }
      return;
    }
    case JsonValue::Kind::kString:
      *out += JsonStringText(value.text);
      return;
    case JsonValue::Kind::kArray:
      for (size_t i = 0; i < value.items.size(); ++i) {
        *out += i == 0 ? "[" : ",";
        AppendJson(value.items[i], out);
      }
      *out += value.items.empty() ? "[]" : "]";
      return;
    case JsonValue::Kind::kObject:
      for (size_t i = 0; i < value.members.size(); ++i) {
        *out += Concat(i == 0 ? "{" : ",", JsonStringText(value.members[i].name), ":");
        AppendJson(value.members[i].value, out);
      }
      *out += value.members.empty() ? "{}" : "}";
      return;
  }
}

void AppendSame(const JsonValue& value, std::string* out) {
  switch (value.kind) {
    case JsonValue::Kind::kNumber: {
      const Decimal decimal = ToDecimal(value.text);
      *out += Concat(decimal.negative ? "-" : "+", decimal.digits, "e", decimal.exponent);
      return;
    }
    case JsonValue::Kind::kArray:
      *out += '[';
      for (const JsonValue& item : value.items) {
        AppendSame(item, out);
        *out += ',';
      }
      *out += ']';
      return;
    case JsonValue::Kind::kObject:
      *out += '{';
      for (const uint32_t i : value.by_name) {
        *out += JsonStringText(value.members[i].name) + ':';
        AppendSame(value.members[i].value, out);
        *out += ',';
      }
      *out += '}';
      return;
    default:
      AppendJson(value, out);
  }
}

}  // namespace

int64_t JsonValue::find_cost() const { return 2 + std::bit_width(members.size()); }

int64_t JsonValue::look_cost() const {
  return members.size() <= 16 ? 12 : 12 * std::bit_width(members.size());
}

const JsonValue::Member* JsonValue::FindMember(std::string_view name) const {
  if ((name_bits & NameBit(name)) == 0) return nullptr;
  const auto found =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](uint32_t i, std::string_view key) { return members[i].name < key; });
  if (found == by_name.end() || members[*found].name != name) return nullptr;
  return &members[*found];
}

const JsonValue* JsonValue::Find(std::string_view name) const {
  const Member* member = FindMember(name);
  return member == nullptr ? nullptr : &member->value;
}

absl::StatusOr<JsonValue> ParseJsonTree(std::string_view text, BuildWork* work) {
  TUTTI_RETURN_IF_ERROR(work->Spend(static_cast<int64_t>(text.size() / 3)));
  // The parser would take it for the end.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(Concat("not JSON at byte ", nul + 1));
  }
  TreeBuilder builder(work);
  const bool parsed = json::sax_parse(text.begin(), text.end(), &builder);
  TUTTI_RETURN_IF_ERROR(work->Spend(0));
  if (parsed) return std::move(builder.root());
  return absl::InvalidArgumentError(builder.error());
}

std::string JsonStringText(std::string_view text) {
  static constexpr std::string_view kShort = "\b\f\n\r\t";
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out += {'\\', "bfnrt"[at]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += Concat("\\u00", kHex.substr(static_cast<size_t>(c) / 16, 1),
                    kHex.substr(static_cast<size_t>(c) % 16, 1));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string JsonText(const JsonValue& value) {
  std::string out;
  AppendJson(value, &out);
  return out;
}

Decimal ToDecimal(std::string_view number) {
  constexpr int64_t kExponentMax = 1'000'000;
  Decimal out;
  if (number.starts_with('-')) {
    out.negative = true;
    number.remove_prefix(1);
  }
  const size_t e = number.find_first_of("eE");
  if (e != std::string_view::npos) {
    const bool below = number.substr(e + 1).starts_with('-');
    if (!ReadNumber(number.substr(e + 1), &out.exponent)) {
      out.exponent = below ? -kExponentMax : kExponentMax;
    }
    out.exponent = std::clamp(out.exponent, -kExponentMax, kExponentMax);
    number = number.substr(0, e);
  }
  for (size_t i = 0, point = number.find('.'); i < number.size(); ++i) {
    if (i == point) continue;
    if (i > point) --out.exponent;
    if (number[i] != '0' || !out.digits.empty()) out.digits += number[i];
  }
  while (out.digits.ends_with('0')) {
    out.digits.pop_back();
    ++out.exponent;
  }
  if (out.digits.empty()) return {};
  return out;
}

int Compare(const Decimal& a, const Decimal& b) {
  const auto sign = [](const Decimal& d) { return d.digits.empty() ? 0 : d.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  if (sign(a) == 0) return 0;
  const int64_t a_top = a.exponent + static_cast<int64_t>(a.digits.size());
  const int64_t b_top = b.exponent + static_cast<int64_t>(b.digits.size());
  const int order = a_top != b_top ? (a_top < b_top ? -1 : 1) : a.digits.compare(b.digits);
  return a.negative ? -order : order;
}

bool SameValue(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case JsonValue::Kind::kNull:
      return true;
    case JsonValue::Kind::kBoolean:
      return a.boolean == b.boolean;
    case JsonValue::Kind::kNumber:
      return ToDecimal(a.text) == ToDecimal(b.text);
    case JsonValue::Kind::kString:
      return a.text == b.text;
    case JsonValue::Kind::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), SameValue);
    case JsonValue::Kind::kObject:
      if (a.members.size() != b.members.size()) return false;
      return std::all_of(a.members.begin(), a.members.end(), [&](const JsonValue::Member& member) {
        const JsonValue* other = b.Find(member.name);
        return other != nullptr && SameValue(member.value, *other);
      });
  }
  return false;
}

std::string SameText(const JsonValue& value) {
  std::string out;
  AppendSame(value, &out);
  return out;
}

}  // namespace tutti::grammar
