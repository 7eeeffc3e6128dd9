#include "program/group_place.h"

#include <cstdlib>

namespace tutti {
namespace {

std::string ValueOf(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

GroupPlace PlaceInGroup() {
  return {.leader = ValueOf(kGroupLeaderVariable),
          .index = ValueOf(kGroupIndexVariable),
          .size = ValueOf(kGroupSizeVariable)};
}

}  // namespace tutti
