#include "tests/support/quiet_check.h"

#include "absl/strings/str_cat.h"

namespace tutti::tests {

void CheckQuiet(const v1::GetStatusResponse& status, const SimClients& clients,
                const std::function<const SimWorker*(const std::string&)>& find_worker,
                SimReport* report, const std::function<void(const std::string&)>& fail) {
  if (!status.serving()) fail(absl::StrCat("not serving: ", status.why_not_serving()));
  if (status.waiting() != 0) fail(absl::StrCat(status.waiting(), " still wait"));
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    report->hit_tokens += pipeline.prefix_hit_tokens();
    report->evictions += pipeline.evictions();
    report->rebuilt_tokens += pipeline.rebuilt_tokens();
    for (const v1::GuessSourceStatus& source : pipeline.guess_sources()) {
      if (source.source() == "answers") report->right_of_answers += source.right_tokens();
      if (source.source() != "draft") continue;
      report->drafts += source.guessed_tokens();
      report->right_drafts += source.right_tokens();
    }
    if (pipeline.blocks_in_use() != 0 || pipeline.running() != 0 || pipeline.waiting() != 0 ||
        pipeline.steps_in_flight() != 0) {
      fail(absl::StrCat("left over: ", pipeline.ShortDebugString()));
    }
    for (const v1::StageStatus& stage : pipeline.stages()) {
      const SimWorker* const worker = find_worker(stage.worker().worker_id());
      if (worker == nullptr || !worker->up() ||
          worker->core()->epoch().value() != pipeline.epoch()) {
        fail(absl::StrCat("stage ", stage.stage(),
                          " is not served by the worker that the engine thinks"));
      }
    }
  }
  const v1::RequestCounters& requests = status.requests();
  if (requests.accepted() != requests.finished() + requests.cancelled() + requests.failed() +
                                 requests.deadline_exceeded() ||
      requests.accepted() + requests.refused() + requests.invalid() != clients.arrived_here()) {
    fail(absl::StrCat("requests do not add up: ", requests.ShortDebugString()));
  }
  if (requests.generated_tokens() != clients.tokens_here()) fail("tokens do not add up");
  report->preemptions = requests.preemptions();
  report->stale_frames = requests.stale_frames();
}

}  // namespace tutti::tests
