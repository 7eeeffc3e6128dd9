#include "tests/support/action_text.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti::tests {
namespace {

// "0,1,5": a long run of neighbours is written "0 to 99".
std::string BlocksText(const google::protobuf::RepeatedField<int32_t>& blocks) {
  constexpr int kLongRun = 10;
  const bool run = blocks.size() >= kLongRun &&
                   std::adjacent_find(blocks.begin(), blocks.end(), [](int32_t a, int32_t b) {
                     return b != a + 1;
                   }) == blocks.end();
  if (run) return absl::StrCat(blocks[0], " to ", blocks[blocks.size() - 1]);
  return absl::StrJoin(blocks, ",");
}

std::string ScheduledText(const v1::ScheduledSequence& scheduled) {
  std::string text =
      absl::StrCat("s", scheduled.sequence(), " ", scheduled.first(), "+", scheduled.count());
  if (scheduled.new_tokens_size() > 0) {
    absl::StrAppend(&text, " tokens ", absl::StrJoin(scheduled.new_tokens(), ","));
  }
  if (scheduled.new_blocks_size() > 0) {
    absl::StrAppend(&text, " blocks ", BlocksText(scheduled.new_blocks()));
  }
  if (scheduled.sample()) absl::StrAppend(&text, " sample");
  if (scheduled.guesses_size() > 0) {
    absl::StrAppend(&text, " guesses ", absl::StrJoin(scheduled.guesses(), ","));
  }
  return text;
}

std::string PlanText(const v1::StepPlan& plan) {
  std::vector<std::string> parts;
  for (const uint64_t id : plan.finished()) parts.push_back(absl::StrCat("forget s", id));
  for (const v1::NewSequence& added : plan.new_sequences()) {
    parts.push_back(absl::StrCat("new s", added.sequence(), " of ", added.tokens_size()));
    if (added.cached_tokens() > 0) {
      absl::StrAppend(&parts.back(), " with ", added.cached_tokens(), " cached");
    }
  }
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    parts.push_back(ScheduledText(scheduled));
  }
  std::string stages;
  if (plan.has_rebuild()) {
    const int32_t first = plan.rebuild().first_stage();
    const int32_t last = plan.rebuild().last_stage();
    stages = absl::StrCat(" in stage ", first, last > first ? absl::StrCat(" to ", last) : "");
  }
  return absl::StrCat("plan ", plan.step(), ", ", plan.total_rows(),
                      plan.total_rows() == 1 ? " row" : " rows", stages, ": ",
                      absl::StrJoin(parts, "; "));
}

std::string AssignText(const v1::AssignShard& shard) {
  std::string text =
      absl::StrCat(shard.standby() ? "stand by for " : "assign ",
                   shard.pipeline() == 0 ? "" : absl::StrCat("pipeline ", shard.pipeline(), " "),
                   "stage ", shard.stage(), " of ", shard.num_stages(), ", layers ",
                   shard.first_layer(), " to ", shard.first_layer() + shard.num_layers() - 1, ", ",
                   shard.num_blocks(), " blocks of ", shard.block_size());
  if (shard.has_embedding()) absl::StrAppend(&text, ", embedding");
  if (shard.has_head()) absl::StrAppend(&text, ", head");
  if (!shard.next_worker_ids().empty()) {
    absl::StrAppend(&text, ", next ", absl::StrJoin(shard.next_worker_ids(), " and "));
  }
  // The classes of shards that say in which they compute; what most workers of scenarios compute in
  // is not worth a word.
  if (!shard.numerics_class().empty() && shard.numerics_class() != "cpu-f32") {
    absl::StrAppend(&text, ", in ", shard.numerics_class());
  }
  if (shard.kv_epoch() > 0) absl::StrAppend(&text, ", K/V of epoch ", shard.kv_epoch());
  return text;
}

std::string FrameText(const v1::Frame& frame) {
  switch (frame.body_case()) {
    case v1::Frame::kWelcome:
      return absl::StrCat("welcome, beat every ", frame.welcome().beat_interval_ms(), " ms, lease ",
                          frame.welcome().lease_ms(), " ms");
    case v1::Frame::kAssignShard:
      return absl::StrCat("epoch ", frame.epoch(), ": ", AssignText(frame.assign_shard()));
    case v1::Frame::kStepPlan:
      return PlanText(frame.step_plan());
    case v1::Frame::kRelease:
      return absl::StrCat("epoch ", frame.epoch(), ": release");
    default:
      return absl::StrCat("frame kind ", static_cast<int>(frame.body_case()));
  }
}

std::string StatusText(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

std::string Name(RequestId request) { return absl::StrCat("r", request.value()); }

std::string Text(const coordinator::CloseWorker& close, const std::string& worker) {
  return absl::StrCat(worker, " <- close, ", StatusText(close.reason));
}

std::string Text(const coordinator::DeliverTokens& deliver) {
  std::vector<int32_t> tokens;
  for (const v1::SampledToken& token : deliver.tokens) tokens.push_back(token.token());
  return absl::StrCat(Name(deliver.request), " -> [", deliver.index, "] ",
                      absl::StrJoin(tokens, " "));
}

std::string Text(const coordinator::FinishRequest& finish) {
  static constexpr const char* kCauses[] = {"stop token", "length", "stop string", "error"};
  std::string text =
      absl::StrCat(Name(finish.request), " -> end, ", kCauses[static_cast<int>(finish.cause)], ", ",
                   finish.prompt_tokens, "+", finish.completion_tokens, " tokens");
  if (finish.cached_prompt_tokens > 0) {
    absl::StrAppend(&text, ", ", finish.cached_prompt_tokens, " cached");
  }
  if (!finish.status.ok()) absl::StrAppend(&text, ", ", StatusText(finish.status));
  return text;
}

}  // namespace

std::string ActionText(const std::vector<coordinator::Action>& actions,
                       const std::function<std::string(coordinator::LinkKey)>& worker_name) {
  std::string text;
  std::string receivers;  // of `frame`, not written yet
  std::string frame;
  const auto flush = [&] {
    if (!receivers.empty()) absl::StrAppend(&text, receivers, " <- ", frame, "\n");
    receivers.clear();
  };
  for (const coordinator::Action& action : actions) {
    if (const auto* send = std::get_if<coordinator::SendToWorker>(&action)) {
      const std::string words = FrameText(send->frame);
      if (words != frame) flush();
      frame = words;
      absl::StrAppend(&receivers, receivers.empty() ? "" : " ", worker_name(send->link));
      continue;
    }
    flush();
    if (const auto* close = std::get_if<coordinator::CloseWorker>(&action)) {
      absl::StrAppend(&text, Text(*close, worker_name(close->link)), "\n");
    } else if (const auto* deliver = std::get_if<coordinator::DeliverTokens>(&action)) {
      absl::StrAppend(&text, Text(*deliver), "\n");
    } else if (const auto* finish = std::get_if<coordinator::FinishRequest>(&action)) {
      absl::StrAppend(&text, Text(*finish), "\n");
    } else if (const auto* serving = std::get_if<coordinator::ServingChanged>(&action)) {
      absl::StrAppend(&text, serving->serving ? "serving" : "not serving: ", serving->why_not,
                      "\n");
    }
  }
  flush();
  return text;
}

}  // namespace tutti::tests
