// Loads of `tutti-bench local` as flags name them.
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/local.h"

namespace tutti::bench {
namespace {

// As of --batch.
constexpr int kSequencesMax = 4096;

}  // namespace

absl::StatusOr<LocalLoad> ParseLocalLoad(const std::string& text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  LocalLoad load;
  const bool is_right =
      (parts.size() == 3 || parts.size() == 4) && absl::SimpleAtoi(parts[0], &load.prompt_tokens) &&
      absl::SimpleAtoi(parts[1], &load.batch) && absl::SimpleAtoi(parts[2], &load.output_tokens) &&
      (parts.size() == 3 || absl::SimpleAtof(parts[3], &load.temperature));
  // CheckOptions has the other bounds.
  if (is_right && load.batch <= kSequencesMax && load.temperature >= 0) return load;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no load: PROMPT,SEQUENCES,OUTPUT or PROMPT,SEQUENCES,OUTPUT,TEMPERATURE"));
}

}  // namespace tutti::bench
