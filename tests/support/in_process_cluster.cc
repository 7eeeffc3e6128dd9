#include "tests/support/in_process_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/check.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "spdlog/spdlog.h"

namespace tutti::tests {
namespace {

// Longer than any of these clusters takes on a busy machine; reached only when something is broken.
std::chrono::seconds Patience() {
  const char* const slowness = std::getenv("TUTTI_TEST_SLOWNESS");
  return std::chrono::seconds(60) * (slowness == nullptr ? 1 : std::max(1, std::atoi(slowness)));
}

// Polls a condition that another process would poll over gRPC as well.
template <typename Condition>
void WaitFor(Condition condition, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + Patience();
  while (!condition()) {
    CHECK(std::chrono::steady_clock::now() < deadline) << "waited too long for " << what;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

std::string DemoDir() {
  const char* source = std::getenv("TUTTI_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/models/demo";
}

InProcessCluster::InProcessCluster(InProcessClusterOptions options) : options_(std::move(options)) {
  spdlog::set_level(spdlog::level::err);  // workers come and go in every test
  char pattern[] = "/tmp/tutti-test-XXXXXX";
  CHECK(mkdtemp(pattern) != nullptr);
  directory_ = pattern;
  auto model = coordinator::ServedModel::Load(options_.model_dir, "test", 0);
  CHECK(model.ok()) << model.status().ToString();
  coordinator::CoordinatorOptions coordinator;
  coordinator.listen = Socket("api");
  coordinator.peer_listen = Socket("peers");
  coordinator.admin_listen = Socket("admin");
  coordinator.door = options_.door;
  coordinator.engine = options_.engine;
  coordinator.engine.cluster_id = "test";
  coordinator.engine.build = BuildStamp();
  if (!options_.draft_dir.empty()) {
    auto draft = model::LoadModelConfig(options_.draft_dir);
    auto fingerprint = model::ModelFingerprint(options_.draft_dir);
    CHECK(draft.ok() && fingerprint.ok()) << draft.status().ToString();
    coordinator.engine.draft = std::make_shared<const model::ModelConfig>(*std::move(draft));
    coordinator.engine.draft_fingerprint = *fingerprint;
  }
  size_t workers = 0;
  for (size_t stage = 0; stage < options_.layers.size(); ++stage) {
    placement::MappedStage& entry = coordinator.engine.device_map.stages.emplace_back();
    entry.num_layers = options_.layers[stage];
    const int ranks = options_.ranks.empty() ? 1 : options_.ranks[stage];
    for (int rank = 0; rank < ranks; ++rank) {
      entry.devices.push_back({.index = -1, .name = absl::StrCat("w", workers++)});
    }
  }
  coordinator.engine.num_stages =
      std::max<int32_t>(1, static_cast<int32_t>(options_.layers.size()));
  coordinator_ =
      std::make_unique<coordinator::Coordinator>(*std::move(model), std::move(coordinator));
  const absl::Status started = coordinator_->Start();
  CHECK(started.ok()) << started.ToString();
  workers_.resize(std::max<size_t>(1, workers));
  for (size_t index = 0; index < workers_.size(); ++index) StartWorker(index);
  channel_ = grpc::CreateChannel(coordinator_->address(), grpc::InsecureChannelCredentials());
  inference_ = v1::Inference::NewStub(channel_);
  admin_ = v1::Admin::NewStub(admin_channel());
  WaitServing(true);
}

InProcessCluster::~InProcessCluster() {
  workers_.clear();
  coordinator_->Shutdown(Duration::zero());
  coordinator_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

worker::WorkerOptions InProcessCluster::OptionsOfWorker(size_t index) const {
  worker::WorkerOptions worker;
  worker.model_dir = options_.model_dir;
  worker.draft_dir = options_.draft_dir;
  worker.coordinators = {Socket("peers")};
  worker.listen = Socket(absl::StrCat("w", index));
  worker.worker_id = absl::StrCat("w", index);
  worker.cluster_id = "test";
  worker.device = options_.device;
  worker.memory_bytes = options_.worker_memory_bytes;
  worker.threads = options_.threads;
  for (size_t peer = 0; peer < workers_.size(); ++peer) {
    const std::string name = absl::StrCat("w", peer);
    const absl::Status added = worker.peers.table.Add(name + "=" + Socket(name));
    CHECK(added.ok()) << added.ToString();
  }
  return worker;
}

void InProcessCluster::StartWorker(size_t index) {
  auto worker = worker::Worker::Start(OptionsOfWorker(index));
  CHECK(worker.ok()) << worker.status().ToString();
  workers_[index] = *std::move(worker);
}

v1::GetStatusResponse InProcessCluster::Status() {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status status = admin_->GetStatus(&context, {}, &response);
  CHECK(status.ok()) << status.error_message();
  return response;
}

void InProcessCluster::WaitServing(bool serving) {
  WaitFor([&] { return Status().serving() == serving; },
          serving ? "the pipeline to serve" : "the pipeline to end");
}

void InProcessCluster::WaitIdle() {
  WaitFor(
      [&] {
        const v1::GetStatusResponse status = Status();
        for (const v1::PipelineStatus& pipeline : status.pipelines()) {
          if (pipeline.running() + pipeline.waiting() + pipeline.blocks_in_use() > 0) return false;
        }
        return true;
      },
      "all KV blocks to be free");
}

void Append(const v1::GenerateResponse& response, Answer* answer) {
  AnswerOutput& output = response.output() == 0 ? *answer : answer->others[response.output()];
  if (response.tokens_size() > 0) CHECK(response.index() == output.tokens.size());
  output.text += response.text();
  output.tokens.insert(output.tokens.end(), response.tokens().begin(), response.tokens().end());
  if (response.has_finish()) output.finish = response.finish();
}

Answer InProcessCluster::Generate(const v1::GenerateRequest& request,
                                  const std::map<std::string, std::string>& metadata) {
  Answer answer;
  grpc::ClientContext context;
  for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
  auto reader = inference_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) Append(response, &answer);
  const grpc::Status status = reader->Finish();
  answer.status =
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    answer.trailing_metadata.emplace(std::string(key.data(), key.size()),
                                     std::string(value.data(), value.size()));
  }
  return answer;
}

std::vector<Answer> InProcessCluster::Generate(const std::vector<v1::GenerateRequest>& requests) {
  std::vector<Answer> answers(requests.size());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < requests.size(); ++i) {
    clients.emplace_back([&, i] { answers[i] = Generate(requests[i]); });
  }
  for (std::thread& client : clients) client.join();
  return answers;
}

}  // namespace tutti::tests
