#include "tests/support/place_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::tests {
namespace {

// A newcomer gets a place with the next step. More steps pass where steps of few rows leave none
// for it, or where others go before it: several for each.
constexpr uint64_t kStepsMax = 32;

}  // namespace

std::string PlaceWatch::Check(coordinator::Engine* engine) {
  std::map<std::pair<RequestId, PipelineId>, uint64_t> since;
  std::string wrong;
  for (const auto& [id, pipeline, steps] : engine->Outranked()) {
    const auto before = since_.find({id, pipeline});
    const uint64_t first = before == since_.end() ? steps : before->second;
    uint64_t& counted_from = since[{id, pipeline}];
    // Fewer than before: another epoch.
    counted_from = std::min(first, steps);
    if (steps > first + kStepsMax) {
      wrong = absl::StrCat("request ", id.value(), " waits for a place for ", steps - first,
                           " steps, which others should have given up");
    }
  }
  since_ = std::move(since);
  return wrong;
}

}  // namespace tutti::tests
