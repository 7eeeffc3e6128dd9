#include "base/address.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr uint32_t kPortMax = 65535;
// sun_path has 108 bytes, with the ending zero.
constexpr size_t kSocketPathBytesMax = 107;
// An address that is quoted in an error is cut after so many bytes.
constexpr size_t kQuotedBytesMax = 128;

absl::Status InvalidAddress(absl::string_view address, absl::string_view what) {
  const absl::string_view shown = address.substr(0, kQuotedBytesMax);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::Utf8SafeCEscape(shown), shown.size() < address.size() ? "…" : "", "\" ", what));
}

bool IsNumber(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
}

// "scheme://host:port/path".
absl::Status CheckScheme(absl::string_view address, size_t colon) {
  const absl::string_view scheme = address.substr(0, colon);
  absl::string_view rest = address.substr(colon + 3);
  while (absl::StartsWith(rest, "/")) rest.remove_prefix(1);
  rest = rest.substr(0, rest.find('/'));
  const bool has_port = rest.rfind(':') != absl::string_view::npos;
  const std::string meant =
      rest.empty() ? std::string("HOST:PORT") : absl::StrCat(rest, has_port ? "" : ":50051");
  const std::string tls = scheme == "https" || scheme == "grpcs"
                              ? "; TLS is turned on by the options for certificates"
                              : "";
  return InvalidAddress(
      address, absl::StrCat("begins with a scheme, and an address has none; write ", meant, tls));
}

absl::Status CheckSocketPath(absl::string_view address) {
  absl::string_view path = address.substr(address.find(':') + 1);
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);
  if (path.empty()) return InvalidAddress(address, "names no socket; write unix:/FOLDER/NAME");
  if (path.size() > kSocketPathBytesMax) {
    return InvalidAddress(
        address, absl::StrCat("has a path of ", path.size(), " bytes, and a socket's has at most ",
                              kSocketPathBytesMax, "; choose a shorter one"));
  }
  return absl::OkStatus();
}

absl::Status CheckPort(absl::string_view address, absl::string_view port, AddressUse use) {
  uint32_t number = 0;
  if (!IsNumber(port)) {
    return InvalidAddress(address,
                          absl::StrCat("has the port \"", absl::Utf8SafeCEscape(port),
                                       "\", which is no number; ports are 1 to ", kPortMax));
  }
  if (port.size() > 9 || !absl::SimpleAtoi(port, &number) || number > kPortMax) {
    return InvalidAddress(address, absl::StrCat("has the port ", port.substr(0, kQuotedBytesMax),
                                                ", and ports end at ", kPortMax));
  }
  if (number == 0 && use == AddressUse::kDial) {
    return InvalidAddress(
        address, "has the port 0, at which nobody listens; write the port that the listener got");
  }
  return absl::OkStatus();
}

absl::Status CheckHost(absl::string_view address, absl::string_view host, absl::string_view port,
                       AddressUse use) {
  if (host.empty()) {
    if (use == AddressUse::kListen) return absl::OkStatus();
    return InvalidAddress(address, absl::StrCat("names no host; write localhost", address));
  }
  const bool in_brackets = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (absl::StartsWith(host, "ipv4:") || absl::StartsWith(host, "dns:")) {
    return InvalidAddress(address,
                          absl::StrCat("begins with a scheme, and an address has none; write ",
                                       host.substr(host.find(':') + 1), ":", port));
  }
  if (absl::StartsWith(host, "[") != absl::EndsWith(host, "]")) {
    return InvalidAddress(address, "has one bracket; write [ADDRESS]:PORT");
  }
  const bool is_v6 = std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
  });
  if (!in_brackets && !is_v6 && absl::StrContains(host, ":")) {
    return InvalidAddress(address, "has more than one colon; write HOST:PORT");
  }
  if (!in_brackets && absl::StrContains(host, ":")) {
    return InvalidAddress(address,
                          absl::StrCat("has more than one colon; an IPv6 address stands in "
                                       "brackets: [",
                                       host, "]:", port));
  }
  if (host.find_first_of("/@") != absl::string_view::npos) {
    return InvalidAddress(address, "is neither HOST:PORT nor unix:/FOLDER/NAME");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAddress(absl::string_view address, AddressUse use) {
  if (address.empty()) {
    return absl::InvalidArgumentError("is empty; write HOST:PORT or unix:/FOLDER/NAME");
  }
  const bool printable = std::all_of(address.begin(), address.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!printable) {
    return InvalidAddress(address, "has a space or a character in it that addresses do not have");
  }
  if (const size_t colon = address.find("://");
      colon != absl::string_view::npos && !absl::StartsWith(address, "unix:")) {
    return CheckScheme(address, colon);
  }
  if (absl::StartsWith(address, "unix:")) return CheckSocketPath(address);
  if (absl::StartsWith(address, "/") || absl::StartsWith(address, "./")) {
    return InvalidAddress(address, absl::StrCat("is a path; of a socket write unix:", address));
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || address.back() == ']') {
    if (IsNumber(address)) {
      return InvalidAddress(address,
                            absl::StrCat("is a port without a host; write localhost:", address));
    }
    return InvalidAddress(address,
                          absl::StrCat("has no port; write for example ", address, ":50051"));
  }
  if (colon + 1 == address.size()) {
    return InvalidAddress(address,
                          absl::StrCat("has no port; write for example ", address, "50051"));
  }
  const absl::string_view host = address.substr(0, colon), port = address.substr(colon + 1);
  TUTTI_RETURN_IF_ERROR(CheckHost(address, host, port, use));
  return CheckPort(address, port, use);
}

std::string WithUsualPort(absl::string_view address, int port) {
  const bool is_path = absl::StartsWith(address, "unix:") || absl::StrContains(address, "/");
  const bool has_port = !absl::EndsWith(address, "]") && absl::StrContains(address, ":");
  if (address.empty() || is_path || has_port || IsNumber(address)) return std::string(address);
  return absl::StrCat(address, ":", port);
}

}  // namespace tutti
