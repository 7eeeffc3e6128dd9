// A whole cluster in one process, with nothing replaced: the coordinator, the workers and a client,
// joined by gRPC over Unix sockets in a private directory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/coordinator.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"
#include "worker/service/worker.h"

namespace tutti::tests {

// The demo model of the repository, from TUTTI_SOURCE_DIR.
std::string DemoDir();

struct InProcessClusterOptions {
  std::string model_dir;
  std::string draft_dir;        // of a draft model; empty: none
  std::vector<int32_t> layers;  // per stage, one worker each; empty: one stage with all
  std::vector<int> ranks;       // per stage, one worker each; empty: one rank
  int threads = 1;              // of each worker
  std::string device = "cpu";
  int64_t worker_memory_bytes = int64_t{1} << 30;
  door::DoorOptions door;
  coordinator::EngineOptions engine;  // block size, budget, chunk, limits
};

// One output of a Generate call.
struct AnswerOutput {
  std::string text;
  std::vector<v1::OutputToken> tokens;
  v1::Finish finish;
};
// The answer of a Generate call: output 0, and the others where several were asked for.
struct Answer : AnswerOutput {
  absl::Status status;
  std::map<uint32_t, AnswerOutput> others;
  std::map<std::string, std::string> trailing_metadata;
};

// Adds a message of the stream to what has come. CHECKs that no position is missing or repeated.
void Append(const v1::GenerateResponse& response, Answer* answer);

class InProcessCluster {
 public:
  // Starts everything and waits until it serves. CHECKs that it does.
  explicit InProcessCluster(InProcessClusterOptions options);
  ~InProcessCluster();

  // Sends all requests at once and waits for all answers, in the requests' order.
  std::vector<Answer> Generate(const std::vector<v1::GenerateRequest>& requests);
  Answer Generate(const v1::GenerateRequest& request,
                  const std::map<std::string, std::string>& metadata = {});
  v1::GetStatusResponse Status();

  v1::Inference::Stub* inference() { return inference_.get(); }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  // A channel to the operator's port.
  std::shared_ptr<grpc::Channel> admin_channel() {
    return grpc::CreateChannel(coordinator_->admin_address(), grpc::InsecureChannelCredentials());
  }
  const std::string& address() const { return coordinator_->address(); }
  // Ends a worker as a crash would: its links close without a word. Workers are numbered stage by
  // stage, within them rank by rank; worker i is called "w<i>".
  void StopWorker(size_t index) { workers_[index].reset(); }
  void StartWorker(size_t index);
  // Waits until the service says that it does, or does not, serve.
  void WaitServing(bool serving);
  // Waits until no request runs or waits and no KV block is in use.
  void WaitIdle();

 private:
  worker::WorkerOptions OptionsOfWorker(size_t index) const;
  std::string Socket(const std::string& name) const { return "unix:" + directory_ + "/" + name; }

  const InProcessClusterOptions options_;
  std::string directory_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace tutti::tests
