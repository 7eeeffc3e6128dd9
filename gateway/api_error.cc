#include "gateway/api_error.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"

namespace tutti::gateway {

ApiError MakeError(int status, std::string_view message) {
  ApiError error{.status = status, .message = std::string(message)};
  error.type = status == 429   ? "rate_limit_error"
               : status >= 500 ? "server_error"
                               : "invalid_request_error";
  if (status == 401) error.code = "invalid_api_key";
  if (status == 429) error.code = "rate_limit_exceeded";
  return error;
}

ApiError Unavailable(std::string_view why) { return MakeError(503, why); }

ApiError BadRequest(std::string_view param, std::string_view message) {
  ApiError error = MakeError(400, message);
  error.param = std::string(param);
  return error;
}

std::string ErrorBody(const ApiError& error) {
  nlohmann::ordered_json json;
  json["message"] = error.message;
  json["type"] = error.type;
  json["param"] =
      error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  json["code"] = error.code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.code);
  const nlohmann::ordered_json body = {{"error", std::move(json)}};
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

absl::Status WithoutAddress(const absl::Status& status) {
  const absl::string_view message = status.message();
  const size_t begin = std::min(message.find("no connection to a Tutti service at "),
                                message.find("the connection to the Tutti service at "));
  if (status.ok() || begin == absl::string_view::npos) return status;
  absl::Status plain(status.code(), absl::StrCat(message.substr(0, begin), kServiceUnreachable));
  const std::optional<Duration> delay = RetryDelayOf(status);
  return delay.has_value() ? WithRetryDelay(plain, *delay) : plain;
}

}  // namespace tutti::gateway
