// Bounds of what workers without the checkpoint are sent (docs/decisions/0067), each with its
// derivation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::coordinator {

// Bytes of chunks in a second, unless told otherwise: what a network of 10 Gbit/s carries, and a
// quarter of what the disks of a faster one's machines read, so that steps of those that serve find
// room.
inline constexpr int64_t kWeightsBytesPerSecond = 1'000'000'000;
// Threads that read and send: each reads and digests some 2 GB/s of cached pages.
inline constexpr int kWeightsThreads = 2;
// Questions of one link that wait: those of a worker, kFetchWindow, and as many of one that has
// just been sent its answers.
inline constexpr size_t kWeightsQuestionsMax = 16;
// Chunks of 1 MiB that were handed to a link and have not left: one on its way into the socket and
// one to follow. All links together hold kWorkerLinksMax times as much at the very worst.
inline constexpr int kWeightsUnsentMax = 2;
// The longest that a thread does not look whether a link has room again.
inline constexpr Duration kWeightsLookInterval = std::chrono::milliseconds(20);
// A link whose questions have waited for so long is told that they do: a third of the patience of
// workers, which give up what is not answered for 15 s (kFetchPatience, worker/limits.h). A low
// --weights-rate, or many workers at once, make answers rarer than that.
inline constexpr Duration kWeightsPendingInterval = std::chrono::seconds(5);
// Digests of one answer: 1 MiB, for 64 GiB of a file.
inline constexpr int64_t kDigestsPerAnswerMax = int64_t{1} << 16;

}  // namespace tutti::coordinator
