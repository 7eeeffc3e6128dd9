#include "metrics/trace_context.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"

namespace tutti::metrics {
namespace {

// "00-" trace "-" parent "-" flags
constexpr size_t kTraceAt = 3, kTraceSize = 32;
constexpr size_t kSpanAt = 36, kSpanSize = 16;
constexpr size_t kFlagsAt = 53, kFlagsSize = 2;
constexpr size_t kSize = kFlagsAt + kFlagsSize;
// Bytes of a later version, which may say more.
constexpr size_t kSizeMax = 512;

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return IsLowerHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

uint64_t NextBits() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  static std::atomic<uint64_t> made{0};
  // Zero is no id.
  return std::max<uint64_t>(RandomBits(seed, ++made), 1);
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kSize || text.size() > kSizeMax) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const bool is_first = version == "00";
  if (!IsLowerHex(version) || version == "ff" || (is_first && text.size() != kSize)) {
    return std::nullopt;
  }
  if (text.size() > kSize && text[kSize] != '-') return std::nullopt;
  for (const size_t dash : {kTraceAt, kSpanAt, kFlagsAt}) {
    if (text[dash - 1] != '-') return std::nullopt;
  }
  const std::string_view trace = text.substr(kTraceAt, kTraceSize);
  const std::string_view span = text.substr(kSpanAt, kSpanSize);
  const std::string_view flags = text.substr(kFlagsAt, kFlagsSize);
  if (!IsId(trace) || !IsId(span) || !IsLowerHex(flags)) return std::nullopt;
  // The lowest bit of the last digit.
  const char last = flags[1];
  const int digit = last <= '9' ? last - '0' : last - 'a' + 10;
  return TraceContext{
      .trace_id = std::string(trace), .span_id = std::string(span), .sampled = (digit & 1) != 0};
}

std::string FormatTraceparent(const TraceContext& context) {
  return absl::StrCat("00-", context.trace_id, "-", context.span_id,
                      context.sampled ? "-01" : "-00");
}

std::string NewTraceId() { return absl::StrFormat("%016x%016x", NextBits(), NextBits()); }

std::string NewSpanId() { return absl::StrFormat("%016x", NextBits()); }

}  // namespace tutti::metrics
