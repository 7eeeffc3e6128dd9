#include "gateway/http/host_name.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tutti::gateway {

std::string HostName(std::string_view host) {
  std::string name = absl::AsciiStrToLower(std::string(host));
  const bool bracketed = !name.empty() && name[0] == '[';
  const size_t end = bracketed ? name.find(']') : name.find(':');
  if (bracketed && end == std::string::npos) return "";
  const size_t after = bracketed ? end + 1 : end;
  const std::string rest = after < name.size() ? name.substr(after) : "";
  const bool is_port = rest.size() > 1 && rest[0] == ':' &&
                       std::all_of(rest.begin() + 1, rest.end(), absl::ascii_isdigit);
  if (!rest.empty() && !is_port) return "";
  return bracketed ? name.substr(1, end - 1) : name.substr(0, end);
}

std::string AccountOfAddress(const std::string& name) {
  in6_addr address{};
  if (inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), &address) != 1) return name;
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    return inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
  }
  std::memset(&address.s6_addr[8], 0, 8);
  return std::string(inet_ntop(AF_INET6, &address, text, sizeof(text))) + "/64";
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  const bool is_one = inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
                      inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
  return is_one && std::any_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b != 0; });
}

bool IsLoopbackName(std::string_view text) {
  const std::string name(text);
  if (name == "localhost" || name == "::1" || absl::EndsWith(name, ".localhost")) return true;
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    int number = 0;
    return part.size() <= 3 && std::all_of(part.begin(), part.end(), absl::ascii_isdigit) &&
           absl::SimpleAtoi(part, &number) && number <= 255;
  });
}

}  // namespace tutti::gateway
