// A coordinator, its workers and its gateway as child processes of this one, on this machine.
//
// Internal links are unix sockets in a folder that only this user can enter; their ends prove to
// each other that they know a secret made for this cluster. No child outlives us, however we end.
//
// Thread: one, the one that made it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/child_process.h"
#include "client/limits.h"
#include "client/log_file.h"
#include "client/restart_policy.h"

namespace tutti::client {

// What one of the programs is told beside what ties them together.
struct ProgramExtras {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
};

// Those of worker `index` from those of the first: a port for metrics that is given is the first's,
// and the others have those after it.
ProgramExtras ExtrasOfWorker(ProgramExtras extras, int index);

// Whether a flag of one of the programs (without dashes) is the cluster's to set.
bool IsTied(absl::string_view flag);

struct LocalClusterOptions {
  std::string model;  // a folder
  std::string listen;
  std::string http;  // where the gateway listens, or at a port after it; empty: there is none
  std::string grpc;  // where it serves gRPC; empty: nowhere. REQUIRES: http
  int workers = 0;
  int threads_per_worker = 0;
  int64_t memory_per_worker = 0;     // 0: what its GPU has
  std::vector<std::string> devices;  // of each worker
  bool share_devices = false;
  std::string log_dir;  // empty: in the private folder, gone at the end
  ProgramExtras coordinator, each_worker, gateway;
  Duration drain_timeout = kDrainTimeout;  // of all of them
};

class LocalCluster {
 public:
  // Something a person should know: a child died, is started again; with `verbose`, every line of
  // the children's logs.
  using Notice = std::function<void(const std::string& line)>;

  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LocalClusterOptions& options,
                                                             bool verbose, Notice notice);
  ~LocalCluster();

  // Looks after the children: to be called every kSuperviseTickMs. An error means the cluster
  // cannot go on: a child died before the cluster ever served, or keeps dying; it says
  // why, or the last lines of its log have been given to `notice`. INVALID_ARGUMENT: the child's
  // options or its model cannot be right.
  absl::Status Tick(Instant now);

  // From now on a dead child is started again instead of being an error.
  void MarkServing() { has_served_ = true; }

  // The address to which clients connect; nothing until the coordinator listens.
  const std::optional<std::string>& address() const { return address_; }
  // Its operator's address; empty until then.
  const std::string& admin() const { return admin_; }
  // Its gateway's address; empty until then, and without one.
  const std::string& http_address() const { return http_address_; }
  // The address of the gateway's gRPC; as http_address.
  const std::string& grpc_address() const { return grpc_address_; }
  // The coordinator listens, and the gateway if there is to be one.
  bool listens() const { return address_ && (options_.http.empty() || !http_address_.empty()); }

  // What the gateway has seen of the service, if there is to be one: /ready is 200.
  bool gateway_serves() const { return options_.http.empty() || gateway_serves_; }

  // Ends all processes in order: each is told once, the coordinator first. It lets running requests
  // finish, the workers serve until it lets them go. When `hurried` says so all are told again, and
  // those left kStopGraceMs after that, or after the grace, are killed.
  void Stop(const std::function<bool()>& hurried);

 private:
  struct Member {
    std::string name;
    ChildSpec spec;
    LogFile log;
    std::optional<ChildProcess> process;
    Instant started;
    Instant restart_at = kInstantNever;
    RestartPolicy policy;
  };

  LocalCluster(LocalClusterOptions options, std::string dir, bool verbose, Notice notice);
  absl::Status AddMembers();
  // `arguments`: those that tie it to the others.
  Member MakeMember(const std::string& name, std::vector<std::string> arguments,
                    const ProgramExtras& extras);
  absl::Status StartMember(Member* member, Instant now);
  absl::Status OnDeath(Member* member, int wait_status, Instant now);
  absl::Status ReadReadyFile();
  absl::Status StartGateway(Instant now);
  absl::Status ReadGatewayFile();
  void FollowLogs();
  // True once all have ended; false at the deadline, or when `sooner` (null: never) says so.
  bool WaitUntil(Instant deadline, const std::function<bool()>& sooner);
  void SignalAll(int signal) const;
  // The second signal.
  void Hurry();

  const LocalClusterOptions options_;
  const std::string dir_;
  const bool verbose_;
  const Notice notice_;
  std::vector<std::unique_ptr<Member>> members_;  // the coordinator first
  Member* gateway_ = nullptr;                     // of them
  std::optional<std::string> address_;
  std::string admin_;
  std::string metrics_;  // where the coordinator tells them; empty: nowhere
  std::string http_address_;
  bool gateway_serves_ = false;
  std::string grpc_address_;
  bool has_served_ = false;
};

}  // namespace tutti::client
