// The callers that are let in, before anything of the body is looked at.
//
// Who calls is told by a key, or by the address at the other end: without keys processes of this
// machine are served and, where the operator says so, all others. A field of a request lets nobody
// in. But without keys a browser must not be made to call by pages of others: the request's Host,
// and its Origin where it has one, must be names of this server, or be allowed by name.
//
// Pure.  Thread: any.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/api_keys.h"
#include "gateway/http/message.h"

namespace tutti::gateway {

struct DoorRules {
  std::optional<ApiKeys> keys;             // some of which are operators'
  bool without_keys = false;               // callers of other machines are served without one
  std::vector<std::string> allowed_hosts;  // in lower case
  std::vector<std::string> cors_origins;   // "*": all
};

// The tenant of the caller, empty without keys; or why it is not let in. `open`: the path needs no
// key, whoever calls under whatever name: probes have a pod's address.
std::variant<std::string, ApiError> Admit(const DoorRules& rules, const HttpRequest& request,
                                          bool open);
// Whose the body of a request is, by its head, or why it is not read. A path that is open to all
// needs no body, so that who has no key never makes us read one.
std::variant<std::string, ApiError> AdmitBody(const DoorRules& rules, const HttpRequest& head);

// Why the caller may not see the state of the service; nothing if it may: with keys who has an
// operator's, without them processes of this machine, and never pages of others.
std::optional<ApiError> AdmitOperator(const DoorRules& rules, const HttpRequest& request);

// Fields that every answer to this request has, for browsers.
HttpFields CorsFields(const DoorRules& rules, const HttpRequest& request);

}  // namespace tutti::gateway
