// The answers of a load test, kept to be compared token by token with those of another run: of
// another cluster, another layout, another build.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/load/turn.h"

namespace tutti::client {

class Answers {
 public:
  // `asked` describes the requests in words; answers to other requests cannot be compared.
  explicit Answers(std::string asked) : asked_(std::move(asked)) {}

  // Keeps the answer of a turn that went well.
  void Add(const Turn& turn);

  // A file of JSON Lines: {"asked": …}, then {"chat": …, "turn": …, "ids": […]} in order.
  absl::Status Save(const std::string& path) const;
  // INVALID_ARGUMENT "path:line: …" for a line that Save would not have written.
  static absl::StatusOr<Answers> Load(const std::string& path);

  struct Comparison {
    int64_t equal = 0;
    int64_t different = 0;
    int64_t missing = 0;                // recorded, and not answered now
    int64_t unknown = 0;                // answered now, and not recorded
    std::vector<std::string> examples;  // of differences, at most kDifferencesShown

    bool same() const { return different + missing + unknown == 0; }
  };
  // INVALID_ARGUMENT when the two were asked different things.
  absl::StatusOr<Comparison> CompareWith(const Answers& recorded) const;

 private:
  using Place = std::pair<int64_t, int32_t>;  // chat, turn

  std::string asked_;
  std::map<Place, std::vector<int32_t>> ids_;
};

}  // namespace tutti::client
