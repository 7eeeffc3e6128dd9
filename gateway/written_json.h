// The parts of a JSON text as they are written: their order, their blanks and their numbers, which
// a parsed value does not keep.
//
// Pure.  Thread: any.  REQUIRES (all): the text is valid JSON, of the kind that the name says.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::gateway {

struct WrittenMember {
  std::string name;  // without its escapes
  std::string_view value;
};

std::vector<WrittenMember> MembersAsWritten(std::string_view object);
std::vector<std::string_view> ItemsAsWritten(std::string_view list);
// One of these; empty: there are fewer.
inline std::string_view ItemAt(const std::vector<std::string_view>& items, size_t i) {
  return i < items.size() ? items[i] : std::string_view();
}
// The value of that member; empty: there is none, or `object` is empty.
std::string_view MemberAsWritten(std::string_view object, std::string_view name);

}  // namespace tutti::gateway
