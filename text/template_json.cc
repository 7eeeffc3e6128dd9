#include "text/template_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/limits.h"

namespace tutti::text {
namespace {

using Json = nlohmann::ordered_json;
using Members = Json::object_t::Container;

// So that one more has room. Values are moved when nothing can fail any more.
void MakeRoom(Members* members) {
  if (members->size() < members->capacity()) return;
  Members larger;
  larger.reserve(std::max<size_t>(4, 2 * members->size()));
  for (const auto& [name, value] : *members) larger.emplace_back(name, nullptr);
  for (size_t i = 0; i < larger.size(); ++i) larger[i].second.swap((*members)[i].second);
  members->swap(larger);
}

class Builder final : public nlohmann::json_sax<Json> {
 public:
  TemplateJson Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") != string_t::npos) return Put(value);
    // Json::binary leaves a value that cannot end where there is no memory.
    return Put(Json(Json::binary_t(std::vector<std::uint8_t>(text.begin(), text.end()))));
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  // The place where the next value goes: a key that came before is given its last value, as Python
  // does it.
  Json* Place(Json value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return &*root_;
    }
    Json& container = *open_.back().json;
    if (container.is_array()) {
      container.push_back(std::move(value));
      return &container.back();
    }
    // The library looks for each key among all before it.
    auto& members = static_cast<Members&>(container.get_ref<Json::object_t&>());
    const auto [place, is_new] = open_.back().places.try_emplace(key_, members.size());
    if (is_new) {
      MakeRoom(&members);
      members.emplace_back(key_, std::move(value));
    } else {
      EmptyOut(&members[place->second].second);
      members[place->second].second = std::move(value);
    }
    return &members[place->second].second;
  }

  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json container) {
    if (open_.size() >= static_cast<size_t>(kTextJsonDepthMax)) return false;
    Json* const placed = Place(std::move(container));
    open_.push_back({placed, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  struct Container {
    Json* json = nullptr;
    // Of an object's keys. The standard's: others are not whole any more when memory runs out.
    std::unordered_map<std::string, size_t> places;
  };

  TemplateJson root_;
  std::vector<Container> open_;  // from the outside inwards; only the last one grows
  std::string key_;
};

}  // namespace

TemplateJson ParseTemplateJson(std::string_view text) {
  Builder builder;
  if (text.find('\0') != std::string_view::npos || !Json::sax_parse(text, &builder)) {
    return TemplateJson(Json(Json::value_t::discarded));
  }
  return builder.Take();
}

void SetMember(Json* object, std::string name, Json&& value) {
  auto& members = static_cast<Members&>(object->get_ref<Json::object_t&>());
  for (auto& [other, old] : members) {
    if (other != name) continue;
    EmptyOut(&old);
    old = std::move(value);
    return;
  }
  MakeRoom(&members);
  members.emplace_back(std::move(name), std::move(value));
}

}  // namespace tutti::text
