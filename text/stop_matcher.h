// Finds stop strings in streamed text, also where they are spread over several tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace tutti::text {

// The first stop string to be complete ends the text; of several that end at the same character,
// the longest. So the result depends on the text alone, not on how it was cut into tokens. Time per
// byte of text is constant on average. Holds back at most kStopStringBytesMax bytes of text.
// Thread: one at a time.
class StopMatcher {
 public:
  // `include_stop`: the text ends after the stop string, not before it. No stop strings: nothing is
  // ever held back.
  //
  // Errors: InvalidArgument naming "stop" or "stop[i]": empty, not UTF-8, too many, too long.
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stops,
                                            bool include_stop);

  struct Result {
    std::string text;  // to be delivered now; valid UTF-8 where the pushed text is
    int stop = -1;     // index of the stop string that was found, or -1
  };

  // Takes more text. After a stop string was found, further text is ignored. Without `may_stop`
  // stop strings that are complete within this text are none; they may begin in it.
  // REQUIRES: `text` ends at the end of a character, as the detokenizer's does
  Result Push(std::string_view text, bool may_stop = true);

  // The end of the sequence: the text still held back.
  std::string Finish();

  bool stopped() const { return stopped_; }

 private:
  struct State {
    uint32_t fallback = 0;  // the longest proper suffix that begins a stop string
    uint32_t depth = 0;     // bytes of stop string matched
    int stop = -1;          // the longest stop string that ends here
  };
  static uint64_t Edge(uint32_t state, char byte) {
    return static_cast<uint64_t>(state) << 8 | static_cast<unsigned char>(byte);
  }

  StopMatcher() = default;
  void AddStop(std::string_view stop, int index);
  void LinkFallbacks();
  uint32_t Step(uint32_t state, char byte) const;

  // Constant after Create: the automaton of Aho and Corasick, 1975.
  std::vector<State> states_{1};  // [0] is the root; children come after their parents
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::vector<size_t> stop_bytes_;
  bool include_stop_ = false;

  uint32_t state_ = 0;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tutti::text
