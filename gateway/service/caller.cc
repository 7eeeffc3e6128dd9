#include "gateway/service/caller.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"

namespace tutti::gateway {
namespace {

// A time to come back that nobody told us.
constexpr Duration kComeBack = std::chrono::seconds(1);

}  // namespace

void Caller::ReplyJson(std::string body) const {
  HttpResponse response = Head(200);
  response.body = std::move(body);
  exchange->Reply(std::move(response));
}

HttpResponse Caller::ErrorResponse(const ApiError& error) const {
  HttpResponse response = Head(error.status);
  response.body = error_body(error);
  if (error.retry_after.has_value() || error.status == 503) {
    const Duration delay = error.retry_after.value_or(kComeBack);
    const auto ms =
        std::max<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(delay).count(), 1);
    response.fields.emplace_back("Retry-After", absl::StrCat((ms + 999) / 1000));
    response.fields.emplace_back("retry-after-ms", absl::StrCat(ms));
  }
  if (error.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

void Caller::ReplyError(const ApiError& error) const { exchange->Reply(ErrorResponse(error)); }

std::string RandomName() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  static std::atomic<uint64_t> made{0};
  const uint64_t number = ++made;
  return absl::StrFormat("%016x%016x", RandomBits(seed, number, 0), RandomBits(seed, number, 1));
}

}  // namespace tutti::gateway
