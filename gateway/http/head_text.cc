#include "gateway/http/head_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace tutti::gateway {
namespace {

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Unimplemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Other";
  }
}

}  // namespace

bool IsFieldText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

std::string HeadText(const HttpResponse& response, std::optional<uint64_t> length, bool chunked,
                     bool close) {
  std::string text =
      absl::StrFormat("HTTP/1.1 %d %s\r\n", response.status, Reason(response.status));
  if (!response.content_type.empty()) {
    absl::StrAppend(&text, "Content-Type: ", response.content_type, "\r\n");
  }
  for (const auto& [name, value] : response.fields) {
    CHECK(IsFieldText(name) && IsFieldText(value)) << name;
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  if (length.has_value()) absl::StrAppend(&text, "Content-Length: ", *length, "\r\n");
  if (chunked) text += "Transfer-Encoding: chunked\r\n";
  absl::StrAppend(&text, "Connection: ", close ? "close" : "keep-alive", "\r\n\r\n");
  return text;
}

std::string ChunkText(std::string_view piece) {
  return absl::StrFormat("%x\r\n%s\r\n", piece.size(), std::string(piece));
}

}  // namespace tutti::gateway
