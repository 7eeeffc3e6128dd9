// The caller, and how an answer goes back to them.
#pragma once

#include <memory>
#include <string>

#include "gateway/api_error.h"
#include "gateway/http/exchange.h"

namespace tutti::gateway {

struct Caller {
  std::shared_ptr<Exchange> exchange;
  HttpFields fields;         // of every answer to it
  std::string request_name;  // its x-request-id, or one that we made
  std::string tenant;
  std::string owner;  // who pays (OwnerName)
  // The form of errors in its protocol.
  std::string (*error_body)(const ApiError&) = ErrorBody;

  HttpResponse Head(int status) const { return {.status = status, .fields = fields}; }
  HttpResponse ErrorResponse(const ApiError& error) const;
  void ReplyJson(std::string body) const;
  void ReplyError(const ApiError& error) const;
};

// 32 hexadecimal digits, never the same.
std::string RandomName();

}  // namespace tutti::gateway
