// Names of workers and served models: they appear in messages, logs and file names.
//
// Thread: any; pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace tutti {

// [A-Za-z0-9._-]{1,128}
inline bool IsPlainName(std::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace tutti
