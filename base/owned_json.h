// JSON of others that ends without asking for memory.
#pragma once

#include <utility>

namespace tutti {

// Empties a value of nlohmann's, of any of its types: from its last part to its first, each emptied
// before it ends. As many calls inside each other as its parts are.
template <typename Json>
void EmptyOut(Json* json) noexcept {
  if (auto* const list = json->template get_ptr<typename Json::array_t*>()) {
    for (; !list->empty(); list->pop_back()) EmptyOut(&list->back());
  } else if (auto* const object = json->template get_ptr<typename Json::object_t*>()) {
    if constexpr (requires { object->pop_back(); }) {  // in the order of its members
      for (; !object->empty(); object->pop_back()) EmptyOut(&object->back().second);
    } else {
      for (; !object->empty(); object->erase(object->begin())) EmptyOut(&object->begin()->second);
    }
  }
}

// A value from outside, which ends without asking for memory: the library's destructor moves the
// parts of each list and object to a list of its own first, and where there is no memory for that,
// the process ends, as no destructor may fail.
template <typename Json>
class OwnedJson {
 public:
  OwnedJson() = default;
  explicit OwnedJson(Json&& json) noexcept : json_(std::move(json)) {}
  OwnedJson(OwnedJson&& other) noexcept : json_(std::move(other.json_)) {}
  OwnedJson& operator=(OwnedJson&& other) noexcept {
    std::swap(json_, other.json_);
    return *this;
  }
  ~OwnedJson() { EmptyOut(&json_); }

  Json& operator*() { return json_; }
  const Json& operator*() const { return json_; }
  Json* operator->() { return &json_; }
  const Json* operator->() const { return &json_; }

 private:
  Json json_;
};

}  // namespace tutti
