#include "client/loading_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/format.h"
#include "client/status_view.h"

namespace tutti::client {

std::string RenderProgress(const v1::GetStatusResponse& status) {
  std::string loading;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) {
      const bool done = stage.loaded_share() >= 1;
      absl::StrAppend(&loading, loading.empty() ? "loading: " : ", ", WorkerName(stage), " ",
                      done                    ? "done"
                      : stage.fetch().empty() ? FormatShare(stage.loaded_share())
                                              : OneLine(stage.fetch()));
      if (!done && stage.fetch().empty() && stage.predicted().weights() > 0) {
        absl::StrAppend(&loading, " of ", FormatBytes(stage.predicted().weights()));
      }
    }
  }
  if (!loading.empty()) return loading;
  return status.why_not_serving().empty() ? "starting" : OneLine(status.why_not_serving());
}

std::string RenderMilestone(const v1::GetStatusResponse& status) {
  double share = 0;
  int stages = 0;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) {
      share += std::clamp(stage.loaded_share(), 0.0, 1.0);
      ++stages;
    }
  }
  if (stages == 0) return OneLine(status.why_not_serving());
  return absl::StrCat("quarter ", static_cast<int>(share / stages * 4));
}

}  // namespace tutti::client
