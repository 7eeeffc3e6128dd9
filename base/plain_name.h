// Names of workers, which appear in messages, logs and file names, and of served models.
//
// Thread: any; pure.
#pragma once

#include <algorithm>
#include <cctype>
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

// [A-Za-z0-9._:/@+-]{1,256}: also "Qwen/Qwen3-0.6B" and "qwen3:0.6b", as hubs have them. Never the
// name of a file.
inline bool IsModelName(std::string_view name) {
  if (name.empty() || name.size() > 256) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._:/@+-").find(c) != std::string_view::npos;
  });
}

}  // namespace tutti
