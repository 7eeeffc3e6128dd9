// Addresses as people write them: host:port, [v6]:port, or unix:/path.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti {

enum class AddressUse : uint8_t {
  kDial,    // somebody listens there: a host, and a port that is not 0
  kListen,  // this process does: port 0 is any free one, no host is every address of this machine
};

// INVALID_ARGUMENT quotes the address, says what is wrong with it and what was perhaps meant.
absl::Status CheckAddress(absl::string_view address, AddressUse use);

// "HOST" or "[V6]" with `port` behind it; what has a port, and what is no host, as it is.
std::string WithUsualPort(absl::string_view address, int port);

}  // namespace tutti
