// tutti.v1.Inference over gRPC: validates, tokenizes on a pool, posts to the engine.
//
// Its functions are in two files, because one of its calls is a way of many steps:
// generate_call.cc has Generate, from a message to the engine's request.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/events.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/output_hub.h"
#include "coordinator/service/request_builder.h"
#include "coordinator/service/resume_token.h"
#include "coordinator/service/running_grammars.h"
#include "coordinator/service/running_requests.h"
#include "coordinator/service/served_model.h"
#include "door/door.h"
#include "door/grpc/generate_stream.h"
#include "door/grpc/raw_service.h"
#include "door/tenant.h"
#include "door/work_pool.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// Whether requests are accepted, as the health service reports it.  Thread: any.
class ServingState {
 public:
  void Set(const ServingChanged& now);
  // NotServing() with the reason while not serving.
  absl::Status Check() const;

 private:
  mutable Mutex mutex_;
  ServingChanged now_ ABSL_GUARDED_BY(mutex_) = {.why_not = "no worker has joined yet"};
};

class GenerationService : public door::RawService {
 public:
  // `share_cache_domain`: cached prompts of one tenant serve all. `without_certificate`: the roles
  // of callers that show none. `spans`: null: nothing is traced.
  // REQUIRES: everything outlives the service.
  GenerationService(const ServedModel* model, const ServingState* serving, const Clock* clock,
                    EngineLoop* engine, OutputHub* hub, bool share_cache_domain,
                    transport::RoleSet without_certificate, door::Door* door,
                    std::shared_ptr<const ResumeTokens> resume_tokens,
                    metrics::SpanWriter* spans = nullptr);

  // The cache domain in which the K/V of a tenant's requests is looked up.  Thread: any.
  Hash128 CacheDomainOf(std::string_view tenant) const {
    return share_cache_domain_ ? Hash128() : tenants_.Hash(tenant);
  }

  // Thread: any.
  const RunningGrammars& grammars() const { return *grammars_; }

  // Requests whose grammars take long hear from now on that the service shuts down, those that wait
  // among them; the one whose grammar is being made, when it is.  Thread: any.
  void Drain() { draining_ = true; }
  // Those that have not begun for it.  Thread: any.
  int num_waiting() const { return waiting_; }

 private:
  // The properties of a call beside its message.
  struct Call {
    Instant arrival;
    Instant deadline;
    std::vector<std::string> tenants;   // of the metadata
    std::vector<std::string> accounts;  // of the metadata
    door::AskerRights rights;
  };
  // A request that was read and found good.
  struct BuiltCall {
    std::string name;     // the client's
    std::string account;  // see door::AccountOf
    BuiltRequest request;
    StreamBeginning beginning;
    door::ByteBudget::Charge charge;
  };
  // Starts a call. The connection of a gateway is shared by its callers, and not judged.
  door::ClientCall::Reactor* Start(grpc::CallbackServerContext* context, door::ClientCall* call,
                                   door::ClientCall::OnRequest on_request) const;
  door::ClientCall::Reactor* BeginGenerate(grpc::CallbackServerContext* context);
  door::ClientCall::Reactor* BeginTokenize(grpc::CallbackServerContext* context);
  door::ClientCall::Reactor* BeginDetokenize(grpc::CallbackServerContext* context);
  door::ClientCall::Reactor* BeginGetModel(grpc::CallbackServerContext* context);

  // Runs `work` on the pool, unless nobody waits for the answer by then. The call ends with the
  // error of `work`, or when memory runs out.
  void Work(const std::shared_ptr<door::ClientCall>& call, Instant deadline,
            std::function<absl::Status(door::ReceivedRequest)> work);
  // The same of a request that has been taken.
  void WorkOn(door::ClientCall* call, Instant deadline, door::ReceivedRequest received,
              const std::function<absl::Status(door::ReceivedRequest)>& work);
  absl::Status Generate(door::ReceivedRequest received, const Call& call,
                        const std::shared_ptr<door::GenerateStream>& stream, bool patient);
  // Again, on the thread that makes grammars which take long.
  absl::Status GenerateLater(door::ReceivedRequest received, const Hash128& tenant,
                             const Call& call, const std::shared_ptr<door::GenerateStream>& stream);
  // The request as the core knows it, and what its stream says of itself (generate_call.cc).
  absl::StatusOr<BuiltRequest> Build(v1::GenerateRequest* message, const Call& call, bool patient,
                                     StreamBeginning* beginning);
  // Holds it, and has it begin.
  absl::Status Enter(BuiltCall call, const std::shared_ptr<door::GenerateStream>& stream);
  // Gives its outputs to the engine, in the place of those of the same name.
  absl::Status Begin(const std::string& name, BuiltRequest* built, StreamBeginning beginning,
                     const std::shared_ptr<door::GenerateStream>& stream);
  // Opens its outputs at the hub, and submits them.
  absl::Status Open(const std::optional<RunningRequests::Running>& taken_over, BuiltRequest* built,
                    StreamBeginning beginning, const std::shared_ptr<door::GenerateStream>& stream);
  // Gives all outputs to the engine, or none; those of which nothing is left end here.
  absl::Status Submit(const BuiltRequest& built,
                      const std::optional<RunningRequests::Running>& taken_over);
  void Abandon(RequestId first, int32_t n);
  void DescribeModel(bool may_name_tenants, const std::shared_ptr<door::UnaryCall>& call) const;

  const bool share_cache_domain_;
  const transport::RoleSet without_certificate_;
  const ServedModel* const model_;
  const ServingState* const serving_;
  const Clock* const clock_;
  EngineLoop* const engine_;
  OutputHub* const hub_;
  door::Door* const door_;
  const door::TenantHasher tenants_;
  const std::shared_ptr<const ResumeTokens> resume_tokens_;
  const std::shared_ptr<RunningRequests> named_ = std::make_shared<RunningRequests>();
  const std::shared_ptr<RunningGrammars> grammars_;
  KnownGrammars known_grammars_{kKnownGrammarsMax};
  metrics::SpanWriter* const spans_;
  std::atomic<uint64_t> next_request_{1};
  std::atomic<bool> draining_{false};
  std::atomic<int> waiting_{0};
  door::WorkPool pool_;
  door::WorkPool patient_pool_;
};

}  // namespace tutti::coordinator
