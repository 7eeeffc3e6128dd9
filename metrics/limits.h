// Limits of the ports for metrics, and of what is told there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::metrics {

// Connections at once: a scraper or two, a probe, and a person. A newcomer ends the oldest.
inline constexpr size_t kConnectionsMax = 16;
// A request's head: Prometheus sends some 400 bytes.
inline constexpr uint32_t kHeadBytesMax = 8 << 10;
// The time from the connection to the last byte of its answer. Prometheus gives up after ten
// seconds, by default; the text of a large cluster is a few megabytes.
inline constexpr Duration kConnectionTime = std::chrono::seconds(10);
// The time for an engine that is busy to tell of itself: its longest turn is some milliseconds.
inline constexpr Duration kScrapePatience = std::chrono::seconds(2);
// The pause after no descriptor was left.
inline constexpr Duration kAcceptPause = std::chrono::milliseconds(200);
// Spans that wait to be handed on: some 1,000 requests' of a second, in a few megabytes. A batch
// that is full is not left to wait, the others for a second at most.
inline constexpr size_t kSpansWaitingMax = 8192;
// The size of a text of the caller's in a span: a model's name, a request's.
inline constexpr size_t kSpanTextBytesMax = 128;
inline constexpr size_t kSpansPerBatch = 512;
inline constexpr Duration kSpanPeriod = std::chrono::seconds(1);
// The time for a collector to take a batch, also while the process ends.
inline constexpr Duration kPostTime = std::chrono::seconds(2);
inline constexpr Duration kPostTimeAtEnd = std::chrono::seconds(1);
// What another process tells, handed on: the text of a large cluster, and the time for it, of which
// the scraper of ours has more.
inline constexpr size_t kHandedOnBytesMax = 16 << 20;
inline constexpr Duration kHandOnTime = std::chrono::seconds(3);
// Bounds of one histogram. Those of tokens are three a decade, up to 2^31.
inline constexpr size_t kBoundsMax = 32;

}  // namespace tutti::metrics
