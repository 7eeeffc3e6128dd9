#include "placement/layout_flags.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti::placement {

absl::StatusOr<int32_t> ParseSize(absl::string_view text, int32_t most) {
  if (text == "auto") return 0;
  int32_t size = 0;
  if (absl::SimpleAtoi(text, &size) && size >= 1 && size <= most) return size;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CHexEscape(text), "\" is neither \"auto\" nor a number from 1 to ", most));
}

absl::StatusOr<RankSizes> ParseRanks(absl::string_view text) {
  RankSizes sizes;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() == 1) {
    TUTTI_ASSIGN_OR_RETURN(sizes.num_ranks, ParseSize(text));
    return sizes;
  }
  for (const std::string& part : parts) {
    TUTTI_ASSIGN_OR_RETURN(const int32_t ranks, ParseSize(part));
    if (ranks == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", absl::CHexEscape(text), "\": \"auto\" is for all stages or none; write auto, or a ",
          "number for each stage"));
    }
    sizes.stage_ranks.push_back(ranks);
  }
  return sizes;
}

}  // namespace tutti::placement
