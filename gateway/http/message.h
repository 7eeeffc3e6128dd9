// A request of HTTP as it came, and the answer to it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "door/byte_budget.h"

namespace tutti::gateway {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

// The other end of a connection.
struct HttpPeer {
  std::string account;    // whose it is: see transport::AccountOf
  bool is_local = false;  // a process of this machine
};

struct HttpRequest {
  HttpPeer peer;
  std::string owner;                // for whom bytes are held and work is done, once that is known
  door::ByteBudget::Charge charge;  // of the body, where it is large; given back after it
  std::string method;
  std::string path;   // of the target, without what follows a question mark
  HttpFields fields;  // names in lower case
  std::string body;
  bool keep_alive = true;
  bool takes_chunks = true;  // HTTP/1.1

  // The first field of that name; empty if there is none.
  std::string_view Field(std::string_view name) const {
    for (const auto& [key, value] : fields) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpFields fields;
  std::string body;
  bool close = false;  // the connection, after it
};

}  // namespace tutti::gateway
