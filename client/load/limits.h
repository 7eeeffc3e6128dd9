// Limits of the load generator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::client {

// A trace's line: a prompt of 8 million tokens has 16,384 blocks of 512, with ids of up to 19
// digits and a separator each some 350 KiB.
inline constexpr size_t kTraceLineBytesMax = size_t{1} << 20;
// Tokens of one request in a trace: more than any context in use.
inline constexpr int64_t kTraceTokensMax = int64_t{8} << 20;
// The last request of a trace: a month, so that sums of times stay far from overflowing.
inline constexpr int64_t kTraceTimestampMsMax = int64_t{31} * 24 * 3600 * 1000;

// Chats of one run: at some 2 KiB each while under way and 40 bytes when done, and a hundred per
// second for three hours.
inline constexpr int64_t kLoadChatsMax = 1'000'000;
// Turns of a chat, questions it begins with, and tokens of a random prompt: bounds of flags, beyond
// any context.
inline constexpr int64_t kLoadTurnsMax = 1000;
inline constexpr int64_t kLoadTokensMax = int64_t{1} << 20;
// The pause between two looks at a service that does not serve yet.
inline constexpr int kReadyPollMs = 200;
// The time that it is waited for: some 100 GB are loaded from a quick disk meanwhile.
inline constexpr float kReadyWithinS = 60;
// A file of questions or of recorded answers.
inline constexpr int64_t kLoadFileBytesMax = int64_t{1} << 30;

// The period at which the line that shows progress is drawn: a person reads no faster.
inline constexpr int kLoadProgressMs = 500;
// And of the lines that show it elsewhere than on a terminal: a log of an hour has 360.
inline constexpr int kLoadProgressLineS = 10;
// Differences from a recording that are shown; all are counted.
inline constexpr int kDifferencesShown = 5;

}  // namespace tutti::client
