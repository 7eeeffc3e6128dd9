// The files of the page at "/", compiled in (cmake/embed.cmake).
//
// Pure.  Thread: any.
#pragma once

#include <span>
#include <string_view>

namespace tutti::gateway {

struct PageFile {
  std::string_view path;  // of a request: "/", "/page/map.js"
  std::string_view content_type;
  std::string_view tag;  // changes with the contents, as an ETag is written
  std::string_view body;
};

std::span<const PageFile> PageFiles();

}  // namespace tutti::gateway
