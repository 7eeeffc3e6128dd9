// Addresses that links may lead to.  Thread: any.
#pragma once

#include <string>

namespace tutti::transport {

// Whether bytes to or from "host:port" or "unix:/path" stay on this machine. False for anything
// else.
bool IsLocalAddress(const std::string& address);

// `address` with `port` in place of the one it names; a unix address as it is.
std::string WithPort(const std::string& address, int port);

}  // namespace tutti::transport
