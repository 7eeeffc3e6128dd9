#include "model/json_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

using nlohmann::json;

// Builds the document value by value, so that depth and duplicate keys are seen before anything is
// stored.
class DocumentBuilder : public nlohmann::json_sax<json> {
 public:
  json& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Add(json(nullptr)); }
  bool boolean(bool value) override { return Add(json(value)); }
  bool number_integer(number_integer_t value) override { return Add(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Add(json(value)); }
  bool string(string_t& value) override { return Add(json(std::move(value))); }
  bool binary(binary_t&) override { return Fail("holds binary data"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return Fail(absl::StrCat("key ", Quoted(name), " twice"));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Fail(absl::StrCat("not JSON at byte ", position,
                             "; it is damaged or not whole: fetch it again"));
  }

 private:
  bool Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  json* Place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }

  bool Add(json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json empty) {
    if (open_.size() >= kJsonDepthMax) {
      return Fail(absl::StrCat("nested deeper than ", kJsonDepthMax));
    }
    open_.push_back(Place(std::move(empty)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  json root_;
  // Stays valid while its parent only grows at its end: a container is open only while it is its
  // parent's last value.
  std::vector<json*> open_;
  std::string key_;
  std::string error_;
};

// The text with null for the numbers that are none, which Python writes and JSON has no word for.
std::string WithoutNonNumbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') out += text[i++];
    std::string_view word;
    for (const std::string_view one : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && text.substr(i).starts_with(one)) word = one;
    }
    if (!word.empty()) {
      out += "null";
      i += word.size() - 1;
    } else if (i < text.size()) {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view file_name,
                               int64_t bytes_max) {
  const std::string file(file_name);
  if (static_cast<int64_t>(text.size()) > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", text.size(), " bytes, more than the limit of ", bytes_max));
  }
  // The parser would take it for the end.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": not JSON at byte ", nul + 1, ", which is zero"));
  }
  DocumentBuilder builder;
  if (json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root());
  DocumentBuilder again;
  const std::string numbers = WithoutNonNumbers(text);
  if (numbers != text && json::sax_parse(numbers.begin(), numbers.end(), &again)) {
    return std::move(again.root());
  }
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", builder.error()));
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 100;
  std::string out = "\"";
  const std::string_view shown = WholeCharacters(text, kShownBytes);
  for (char c : shown) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  out += shown.size() < text.size() ? "...\"" : "\"";
  return out;
}

}  // namespace tutti::model
