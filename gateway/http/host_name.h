// The names of this server that a request may use. A page of any web site can make a browser send
// requests to 127.0.0.1 under a name of its own (DNS rebinding); its Host gives it away.
//
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::gateway {

// The name in a Host field: without its port, in lower case. Empty for what is no host.
std::string HostName(std::string_view host);
// The account of a numeric address, as transport::AccountOf says it; another name as it is.
std::string AccountOfAddress(const std::string& name);
// A numeric address, of one place: not that of all.
bool IsAddress(const std::string& name);
// localhost, names below it, 127.0.0.0/8 and ::1.
bool IsLoopbackName(std::string_view name);

}  // namespace tutti::gateway
