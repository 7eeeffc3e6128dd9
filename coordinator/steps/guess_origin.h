// The sources that guesses come from, from the one that is asked first to the last: each has a
// pace of its own in every sequence, and counters of its own in the status.
//
// Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::coordinator {

enum class GuessOrigin : uint8_t {
  kText,     // the sequence's own text (prompt_lookup.h)
  kAnswers,  // answers that its owner got before
  kDraft,    // the draft model of the last stage
};
inline constexpr std::array kGuessOrigins = {GuessOrigin::kText, GuessOrigin::kAnswers,
                                             GuessOrigin::kDraft};
inline constexpr size_t kGuessOriginCount = kGuessOrigins.size();

constexpr size_t IndexOf(GuessOrigin origin) { return static_cast<size_t>(origin); }

// Its name in the status and in metrics.
constexpr std::string_view GuessOriginName(GuessOrigin origin) {
  constexpr std::array<std::string_view, kGuessOriginCount> kNames = {"text", "answers", "draft"};
  return kNames[IndexOf(origin)];
}

}  // namespace tutti::coordinator
