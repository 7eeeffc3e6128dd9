#include "tests/support/scenario.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/protocol.h"
#include "tests/support/action_text.h"
#include "tests/support/scenario_command.h"

namespace tutti::tests {

std::string Scenario::RunBlock(std::string_view commands) {
  actions_.clear();
  observed_ = 0;
  extra_.clear();
  std::istringstream lines{std::string(commands)};
  for (std::string line; std::getline(lines, line);) {
    const ScenarioCommand command = ParseScenarioCommand(line);
    if (command.words.empty() || command.words[0][0] == '#') continue;
    const absl::Status status = Run(command, line);
    if (!status.ok()) return absl::StrCat("\"", line, "\": ", status.message(), "\n");
  }
  if (engine_ == nullptr) return "no engine\n";
  Advance();
  Observe();
  const std::string missed = engine_->MissedWork();
  if (!missed.empty()) absl::StrAppend(&extra_, "ASLEEP, and ", missed, "\n");
  return absl::StrCat(
      ActionText(actions_, [this](coordinator::LinkKey link) { return nodes_[link].id; }), extra_);
}

void Scenario::Give(coordinator::Event event) {
  engine_->Handle(std::move(event), now_, &actions_);
  for (coordinator::WorkerFrame& answer : probes_.Take(&actions_)) Give(std::move(answer));
}

void Scenario::Advance() {
  engine_->Advance(now_, &actions_);
  (void)probes_.Take(&actions_);  // notes who is who
}

absl::Status Scenario::Run(const ScenarioCommand& command, const std::string& line) {
  const std::string& verb = command.words[0];
  const std::string object = command.words.size() > 1 ? command.words[1] : "";
  if (verb == "engine") {
    *this = Scenario();
    engine_ = std::make_unique<coordinator::Engine>(ScenarioEngineOptions(command));
    return absl::OkStatus();
  }
  if (engine_ == nullptr) return absl::FailedPreconditionError("no engine yet");
  if (verb == "join") return Join(command);
  if (verb == "request") return Arrive(command);
  if (verb == "send") return Send(command);
  if (verb == "result") return Result(command);
  if (verb == "step") return WholeStep(command);
  if (verb == "status") return Status();
  if (verb == "drain") {
    Give(coordinator::DrainRequested{});
    return absl::OkStatus();
  }
  if (verb == "wait") {
    int64_t ms = 0;
    if (!absl::SimpleAtoi(object, &ms)) return absl::InvalidArgumentError("wait how long?");
    now_ += std::chrono::milliseconds(ms);
    return absl::OkStatus();
  }
  if (verb == "cancel" || verb == "stop_string") {
    uint64_t id = 0;
    if (object.empty() || !absl::SimpleAtoi(object.substr(1), &id)) {
      return absl::InvalidArgumentError("which request?");
    }
    Give(coordinator::RequestCancelled{RequestId(id), verb == "cancel"
                                                          ? coordinator::CancelCause::kClientGone
                                                          : coordinator::CancelCause::kStopString});
    return absl::OkStatus();
  }
  if (!link_of_.contains(object)) return absl::InvalidArgumentError("no such worker");
  if (verb == "lost") {
    Give(coordinator::WorkerLost{link_of_[object], absl::UnavailableError(Rest(line, 2))});
    return absl::OkStatus();
  }
  if (verb == "fail") {
    v1::Frame frame;
    frame.set_epoch(nodes_[link_of_[object]].epoch);
    frame.mutable_failure()->set_message(Rest(line, 2));
    SendFrame(object, std::move(frame));
    return absl::OkStatus();
  }
  for (size_t i = 1; i < command.words.size(); ++i) {
    const std::string& worker = command.words[i];
    if (!link_of_.contains(worker)) return absl::InvalidArgumentError("no such worker");
    Node& node = nodes_[link_of_[worker]];
    v1::Frame frame;
    if (verb == "ready" || verb == "keep") {
      SendFrame(worker, ReadyFrame(node, /*keeps=*/verb == "keep"));
    } else if (verb == "beat") {
      frame.mutable_beat()->set_progress(++node.progress);
      SendFrame(worker, std::move(frame));
    } else if (verb == "leave") {
      frame.mutable_leaving()->set_grace_ms(10'000);
      SendFrame(worker, std::move(frame));
    } else if (verb == "done") {
      TUTTI_RETURN_IF_ERROR(DoStep(worker));
    } else {
      return absl::InvalidArgumentError("no such command");
    }
  }
  return absl::OkStatus();
}

v1::Frame Scenario::ReadyFrame(const Node& node, bool keeps) {
  v1::Frame frame;
  frame.set_epoch(node.epoch);
  v1::ShardReady* const ready = frame.mutable_shard_ready();
  ready->set_weight_bytes(1000);
  if (!keeps) return frame;
  ready->set_kv_epoch(node.kv_epoch);
  ready->set_kept_rows(std::string(static_cast<size_t>((node.num_blocks + 7) / 8), '\xff'));
  return frame;
}

std::string Scenario::Rest(const std::string& line, size_t words) {
  std::istringstream in(line);
  std::string word;
  for (size_t i = 0; i < words; ++i) in >> word;
  std::getline(in >> std::ws, word);
  return word;
}

absl::Status Scenario::Join(const ScenarioCommand& command) {
  for (size_t i = 1; i < command.words.size(); ++i) {
    const coordinator::LinkKey link(next_link_++);
    v1::Hello hello;
    hello.set_protocol_version(
        static_cast<uint32_t>(command.Number("protocol", kPeerProtocolVersion)));
    hello.set_cluster_id(command.Text("cluster", "cluster"));
    hello.set_worker_id(command.words[i]);
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_build(command.Text("build", "build-1"));
    const std::string classes = command.Text("class", "cpu-f32");  // "best,other"
    for (const absl::string_view one : absl::StrSplit(classes, ',')) {
      hello.add_numerics()->set_numerics_class(std::string(one));
    }
    hello.set_numerics_class(hello.numerics(0).numerics_class());
    hello.set_model_fingerprint(command.Text("model", "tiny-print"));
    hello.set_memory_bytes(command.Number("memory", int64_t{1} << 30));
    nodes_[link].id = command.words[i];
    Give(coordinator::WorkerJoined{link, hello});
    if (!std::holds_alternative<coordinator::CloseWorker>(actions_.back()))
      link_of_[command.words[i]] = link;
  }
  return absl::OkStatus();
}

absl::Status Scenario::Arrive(const ScenarioCommand& command) {
  uint64_t id = 0;
  if (command.words.size() != 2 || !absl::SimpleAtoi(command.words[1].substr(1), &id)) {
    return absl::InvalidArgumentError("request rN prompt=N max=N");
  }
  coordinator::Request request;
  request.id = RequestId(id);
  request.prompt = Prompt(command, id);
  prompts_[id] = request.prompt;
  request.cache_domain = {static_cast<uint64_t>(command.Number("tenant", 0)), 0};
  request.max_tokens = static_cast<int32_t>(command.Number("max", 1));
  request.stop_token_ids = command.Numbers("stop");
  request.priority = static_cast<int32_t>(command.Number("priority", 0));
  request.owner.low = static_cast<uint64_t>(command.Number("tenant", 0));
  if (command.values.contains("deadline")) {
    request.deadline = now_ + std::chrono::milliseconds(command.Number("deadline", 0));
  }
  Give(coordinator::RequestArrived{std::move(request)});
  return absl::OkStatus();
}

// No two requests begin alike unless they are told to.
std::vector<TokenId> Scenario::Prompt(const ScenarioCommand& command, uint64_t id) const {
  std::vector<TokenId> prompt(command.Number("prompt", 1), static_cast<TokenId>(500 + id));
  uint64_t other = 0;
  if (!absl::SimpleAtoi(command.Text("like", "-").substr(1), &other)) return prompt;
  const auto found = prompts_.find(other);
  if (found == prompts_.end()) return prompt;
  const int64_t same = std::min<int64_t>(command.Number("same", command.Number("prompt", 1)),
                                         static_cast<int64_t>(prompt.size()));
  for (int64_t i = 0; i < same; ++i) {
    const bool asked = i < static_cast<int64_t>(found->second.size());
    prompt[i] = asked ? found->second[i] : static_cast<TokenId>(i);
  }
  return prompt;
}

absl::Status Scenario::Send(const ScenarioCommand& command) {
  if (command.words.size() != 3 || !link_of_.contains(command.words[1])) {
    return absl::InvalidArgumentError("send W epoch=N KIND");
  }
  v1::Frame frame;
  frame.set_epoch(command.Number("epoch", 0));
  const auto step = static_cast<uint64_t>(command.Number("step", 0));
  const std::string& kind = command.words[2];
  if (kind == "ready") {
    frame.mutable_shard_ready();
  } else if (kind == "done") {
    frame.mutable_step_done()->set_step(step);
  } else if (kind == "result") {
    v1::StepResult* const result = frame.mutable_step_result();
    result->set_step(step);
    result->mutable_done()->set_step(step);
    if (command.values.contains("sequence")) {
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(command.Number("sequence", 0));
      sampled->set_position(static_cast<int32_t>(command.Number("position", 0)));
      sampled->set_token(static_cast<int32_t>(command.Number("token", 0)));
    }
  } else if (kind == "beat") {
    frame.mutable_beat()->set_progress(command.Number("progress", 0));
  } else {
    return absl::InvalidArgumentError("no such frame kind");
  }
  SendFrame(command.words[1], std::move(frame));
  return absl::OkStatus();
}

absl::Status Scenario::DoStep(const std::string& worker) {
  Observe();
  Node& node = nodes_[link_of_[worker]];
  v1::Frame frame;
  frame.set_epoch(node.epoch);
  frame.mutable_step_done()->set_step(++node.done);
  SendFrame(worker, std::move(frame));
  return absl::OkStatus();
}

Scenario::Node* Scenario::AtStage(uint32_t pipeline, int32_t stage) {
  Node* found = nullptr;
  for (auto& [link, node] : nodes_) {
    if (node.stage == stage && node.pipeline == pipeline && link_of_[node.id] == link) {
      found = &node;
    }
  }
  return found;
}

absl::Status Scenario::Result(const ScenarioCommand& command) {
  Observe();
  const auto pipeline = static_cast<uint32_t>(command.Number("pipeline", 0));
  Node* const last = AtStage(pipeline, told_[pipeline].num_stages - 1);
  if (last == nullptr) return absl::FailedPreconditionError("no last stage");
  const auto plan = told_[pipeline].plans.find(++last->done);
  if (plan == told_[pipeline].plans.end())
    return absl::FailedPreconditionError("no such step is planned");
  const std::vector<int32_t> tokens = command.Numbers("tokens");
  v1::Frame frame;
  frame.set_epoch(last->epoch);
  v1::StepResult* const result = frame.mutable_step_result();
  result->set_step(last->done);
  result->mutable_done()->set_step(last->done);
  result->mutable_done()->set_compute_us(static_cast<uint64_t>(command.Number("took", 0)));
  size_t next = 0;
  for (const v1::ScheduledSequence& scheduled : plan->second.scheduled()) {
    if (!scheduled.sample()) continue;
    // As long as the token before was guessed.
    for (int guess = 0;; ++guess) {
      const int32_t position = scheduled.expected_tokens() + guess;
      const int32_t token = next < tokens.size() ? tokens[next] : position;
      ++next;
      if (token < 0) {
        result->add_poisoned(scheduled.sequence());
        break;
      }
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(scheduled.sequence());
      sampled->set_position(position);
      sampled->set_token(token);
      if (guess == scheduled.guesses_size() || token != scheduled.guesses(guess)) break;
    }
  }
  SendFrame(last->id, std::move(frame));
  return absl::OkStatus();
}

absl::Status Scenario::WholeStep(const ScenarioCommand& command) {
  Observe();
  const auto pipeline = static_cast<uint32_t>(command.Number("pipeline", 0));
  const int32_t num_stages = told_[pipeline].num_stages;
  const Node* const last = AtStage(pipeline, num_stages - 1);
  if (last == nullptr) return absl::FailedPreconditionError("no last stage");
  const uint64_t step = last->done + 1;
  for (int32_t stage = 0; stage + 1 < num_stages; ++stage) {
    Node* const node = AtStage(pipeline, stage);
    if (node != nullptr && node->done < step) TUTTI_RETURN_IF_ERROR(DoStep(node->id));
  }
  return Result(command);
}

absl::Status Scenario::Status() {
  v1::GetStatusResponse status;
  engine_->FillStatus(now_, &status);
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    if (status.pipelines_size() > 1) {
      absl::StrAppend(&extra_, "pipeline ", pipeline.pipeline(), ": ");
    }
    absl::StrAppend(&extra_, PipelineText(pipeline), "\n");
    for (const v1::StageStatus& stage : pipeline.stages()) {
      absl::StrAppend(&extra_, "  stage ", stage.stage(), ": ", stage.worker().worker_id(),
                      ", layers ", stage.first_layer(), " to ",
                      stage.first_layer() + stage.num_layers() - 1, ", ", stage.rows(), " rows\n");
    }
  }
  absl::StrAppend(&extra_, status.waiting(), " waiting for room, ", status.idle_workers_size(),
                  " idle workers, ", status.requests().preemptions(), " preemptions, ",
                  status.requests().stale_frames(), " stale frames\n");
  return absl::OkStatus();
}

std::string Scenario::PipelineText(const v1::PipelineStatus& pipeline) {
  return absl::StrCat(pipeline.state(), ", epoch ", pipeline.epoch(), ", ",
                      pipeline.blocks_in_use(), " of ", pipeline.blocks_total(), " blocks",
                      pipeline.blocks_cached() > 0
                          ? absl::StrCat(" and ", pipeline.blocks_cached(), " cached")
                          : "",
                      ", ", pipeline.running(), " running, ", pipeline.waiting(), " waiting, ",
                      pipeline.steps_in_flight(), " steps under way");
}

// Notes the frames that the workers have been sent since the last look.
void Scenario::Observe() {
  for (; observed_ < actions_.size(); ++observed_) {
    const auto* send = std::get_if<coordinator::SendToWorker>(&actions_[observed_]);
    if (send == nullptr) continue;
    Node& node = nodes_[send->link];
    const v1::Frame& frame = send->frame;
    if (frame.has_assign_shard() && frame.assign_shard().standby()) {
      node = {.id = node.id, .epoch = frame.epoch(), .progress = node.progress};  // of no pipeline
    } else if (frame.has_assign_shard()) {
      node.epoch = frame.epoch();
      node.stage = frame.assign_shard().stage();
      node.pipeline = frame.assign_shard().pipeline();
      node.kv_epoch = frame.assign_shard().kv_epoch();
      node.num_blocks = frame.assign_shard().num_blocks();
      node.done = 0;
      told_[node.pipeline] = {.num_stages = frame.assign_shard().num_stages()};
    } else if (frame.has_step_plan()) {
      told_[node.pipeline].plans[frame.step_plan().step()] = frame.step_plan();
    }
  }
}

std::string RunScenario(std::string_view text) {
  Scenario scenario;
  std::string out;
  std::string commands;
  bool in_answer = false;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (in_answer) {
      in_answer = !line.empty();
      if (!in_answer) out += "\n";
      continue;
    }
    out += line + "\n";
    if (line != "----") {
      commands += line + "\n";
      continue;
    }
    out += scenario.RunBlock(commands);
    commands.clear();
    in_answer = true;
  }
  return out;
}

}  // namespace tutti::tests
