// The engine's thread, its mailbox, and the links of the workers: control links, and weights links,
// whose questions it only passes on.
//
// Every event reaches the engine as an item of one mailbox, and every action of the engine is
// carried out on this thread. RPC and transport threads only post.
//
// Its functions are in two files, because weights links are no concern of the engine:
// engine_weights.cc has theirs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mailbox.h"
#include "coordinator/engine.h"
#include "coordinator/events.h"
#include "coordinator/fleet/refused_peers.h"
#include "coordinator/limits.h"
#include "coordinator/metrics/status_metrics.h"
#include "coordinator/service/leader_lease.h"
#include "coordinator/weights/weights_server.h"
#include "transport/link.h"
#include "transport/receive_budget.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// Receives the engine's output for clients and for the health service.  Thread: the engine's; must
// not block.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  virtual void OnTokens(DeliverTokens tokens) = 0;
  virtual void OnFinish(FinishRequest finish) = 0;
  virtual void OnServing(const ServingChanged& changed) = 0;
  // A frame for a worker was not sent: the lease has run out. May come more than once.
  virtual void OnLeaseOver() {}
};

// The part of the time in which frames lay unread that is forgiven: kUnreadForgivenMax at once, and
// a share of the time that passes, so that a worker that is stuck is not hidden for longer by
// whoever keeps gRPC's threads busy.  Thread: one.
class StallAllowance {
 public:
  // The part of `duration`, which ends now, that is forgiven.
  Duration Take(Duration duration, Instant now);

 private:
  Duration left_ = kUnreadForgivenMax;
  std::optional<Instant> at_;
};

class EngineLoop {
 public:
  using StatusCallback = std::function<void(v1::GetStatusResponse)>;
  using LookupCallback = std::function<void(v1::LookupPrefixResponse)>;
  using DrainCallback = std::function<void(absl::StatusOr<std::string>)>;

  // `lease`: workers are commanded only while it holds; null: always. `weights` answers on weights
  // links; null: there are none.
  // REQUIRES: `clock`, `sink`, `lease` and `weights` outlive the loop.
  EngineLoop(EngineOptions options, const Clock* clock, EngineSink* sink,
             const LeaseTime* lease = nullptr, WeightsServer* weights = nullptr);
  ~EngineLoop();

  void Start();
  // Closes the worker links and ends the thread. Requests still running get no further output:
  // drain first.
  void Stop();

  // Thread: any. False when too many events wait: the request was not accepted, no output of it.
  bool Submit(RequestArrived arrived);
  void Cancel(RequestId request, CancelCause cause);
  void Drain();
  // From now on this coordinator leads, or stands by; see the events.
  void Lead(Led led);
  void StandBy(std::string why);
  void TellDigests(CheckpointDigested digested);
  // The gate has turned a peer away.
  void TellRefused(std::string peer, std::string worker_id, absl::Status reason);
  // Frames of workers lay unread in this process for so long up to now.
  void TellUnread(Duration duration);
  // All requests end, told that the service shuts down.
  void EndAll();
  // `callback` runs on the engine's thread.
  void GetStatus(StatusCallback callback);
  EngineTotals totals() const {
    return {.refused_peers = refused_count_,
            .lost_workers = lost_count_,
            .weights_sent_bytes = weights_ == nullptr ? 0 : weights_->sent_bytes()};
  }
  void LookupPrefix(const Hash128& domain, std::vector<TokenId> tokens, LookupCallback callback);
  void DrainWorker(v1::DrainWorkerRequest request, DrainCallback callback);

  // A callback for the transport: accepts each new control connection.
  transport::AcceptCallback acceptor();

 private:
  struct LinkOpened {
    LinkKey key;
    std::unique_ptr<transport::Link> link;
    std::shared_ptr<transport::ReceiveBudget> budget;
  };
  struct LinkFrame {
    LinkKey key;
    v1::Frame frame;
    transport::ReceiveBudget::Unread unread;  // until the engine takes it
  };
  struct LinkClosed {
    LinkKey key;
    absl::Status reason;
  };
  struct StatusWanted {
    StatusCallback callback;
  };
  struct LookupWanted {
    Hash128 domain;
    std::vector<TokenId> tokens;
    LookupCallback callback;
  };
  struct DrainWanted {
    v1::DrainWorkerRequest request;
    DrainCallback callback;
  };
  struct PeerRefused {
    std::string peer, worker_id;
    absl::Status reason;
  };
  struct LayUnread {
    Duration duration{};
  };
  using Item = std::variant<Event, LinkOpened, LinkFrame, LinkClosed, StatusWanted, LookupWanted,
                            DrainWanted, LayUnread, PeerRefused>;
  struct WorkerLink {
    std::shared_ptr<transport::Link> link;             // of a weights link also the server's
    std::shared_ptr<transport::ReceiveBudget> budget;  // a stranger's until it joined
    bool joined = false;
    bool fetches = false;   // a weights link, which the engine does not know
    bool welcome = false;   // the engine has taken it
    std::string worker_id;  // once it has joined
    Instant opened_at;
  };
  class LinkReceiver;

  void Run();
  void ForgiveStall(Duration since_last_turn, Instant now);
  void ForgiveUnread(Duration duration, Instant now);
  void Forgive(Duration duration, Instant now);
  void Handle(Item item, Instant now);
  void AnswerStatus(Instant now);
  void HandleOpened(LinkOpened opened, Instant now);
  void HandleFrame(LinkFrame item, Instant now);
  void HandleHello(LinkKey key, WorkerLink* worker, v1::Hello hello, Instant now);
  void BeginWeights(LinkKey key, WorkerLink* worker, const v1::Hello& hello);
  bool HasJoined(const std::string& worker_id) const;
  void HandleClosed(LinkClosed item, Instant now);
  void NoteRefused(const std::string& peer, const std::string& worker_id,
                   const absl::Status& reason, Instant now);
  void CloseLink(LinkKey key, absl::Status reason);
  void CloseSilentLinks(Instant now);
  Instant NextWake() const;
  void Send(SendToWorker send);
  void Apply(std::vector<Action>* actions);

  const Clock* const clock_;
  EngineSink* const sink_;
  const LeaseTime* const lease_;
  WeightsServer* const weights_;
  const std::string cluster_id_;
  // Shared with link receivers, which may outlive the loop by a moment.
  const std::shared_ptr<Mailbox<Item>> mailbox_;
  const std::shared_ptr<std::atomic<uint64_t>> next_link_key_;
  std::atomic<int64_t> waiting_requests_{0};  // submitted, and not yet the engine's
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> refused_count_{0};
  std::atomic<uint64_t> lost_count_{0};
  Instant started_at_;  // constant after Start
  std::thread thread_;

  // Owned by the engine thread.
  Engine engine_;
  std::map<LinkKey, WorkerLink> links_;
  std::vector<Action> actions_;
  StallAllowance unread_allowance_;
  RefusedPeers refused_;
  std::vector<StatusCallback> asked_;  // in this turn
};

}  // namespace tutti::coordinator
