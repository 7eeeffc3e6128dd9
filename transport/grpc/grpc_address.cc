#include "transport/grpc/grpc_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::transport {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

}  // namespace

bool IsLocalAddress(const std::string& address) {
  if (absl::StartsWith(address, kUnixPrefix)) return true;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string host = address.substr(0, colon);
  if (host == "localhost" || host == "[::1]") return true;
  in_addr ipv4;
  return inet_pton(AF_INET, host.c_str(), &ipv4) == 1 && (ntohl(ipv4.s_addr) >> 24) == 127;
}

std::string WithPort(const std::string& address, int port) {
  if (absl::StartsWith(address, kUnixPrefix)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace tutti::transport
