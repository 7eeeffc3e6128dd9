// Rates of devices and links as people write them.
//
// Thread: any; pure functions.
#pragma once

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti {

// Bytes per second from "900GB/s" or "25Gbit/s"; k, M, G, T, P are powers of 1000.
// INVALID_ARGUMENT quotes a word that is no positive number or has an unknown unit, and shows
// `example`.
absl::StatusOr<double> ParseByteRate(absl::string_view text, absl::string_view example);

// Operations per second from "312Tflop/s" or "312 TFLOPS".
absl::StatusOr<double> ParseFlopRate(absl::string_view text);

// Seconds from "20us", "1.5 ms" or "2s".
absl::StatusOr<double> ParseShortTime(absl::string_view text, absl::string_view example);

}  // namespace tutti
