#include "client/local_cluster.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/local_paths.h"
#include "program/flags.h"
#include "transport/cluster_secret.h"

namespace tutti::client {
namespace {

Instant Now() { return SystemClock().Now(); }

std::string WorkerName(int index) { return absl::StrCat("w", index); }

struct Ready {
  std::string address, admin, metrics;
};

// The contents of the coordinator's ready file; nothing when it is not there yet.
absl::StatusOr<std::optional<Ready>> ParseReadyFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::optional<Ready>();
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_there = [&json](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_string();
  };
  if (!is_there("address") || !is_there("admin") || !is_there("metrics")) {
    return absl::InternalError(absl::StrCat("the coordinator wrote a strange ready file: ", text));
  }
  return std::optional<Ready>(Ready{json["address"].get<std::string>(),
                                    json["admin"].get<std::string>(),
                                    json["metrics"].get<std::string>()});
}

// A program's word about its end, "PROGRAM: why" in its last line; "" if it said nothing.
std::string WhyItEnded(const std::vector<std::string>& lines, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string() + ": ";
  if (lines.empty() || lines.back().compare(0, name.size(), name) != 0) return "";
  return OneLine(lines.back().substr(name.size()));
}

// What AddMembers and StartGateway write.
constexpr absl::string_view kTied[] = {
    "model",       "revision", "listen",       "ready-file", "peer-listen", "cluster-id",
    "coordinator", "admin",    "worker-id",    "peer",       "peers",       "cluster-secret-file",
    "threads",     "memory",   "or-next-port", "device",     "speed-file",  "exit-with-parent",
    "grpc"};

// HOST:PORT with the port `more` further on; 0, any free one, and what is no port stay.
std::string PortFurtherOn(const std::string& address, int more) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port <= 0) {
    return address;
  }
  return absl::StrCat(address.substr(0, colon + 1), port + more);
}

}  // namespace

ProgramExtras ExtrasOfWorker(ProgramExtras extras, int index) {
  constexpr absl::string_view kFlag = "--metrics";
  constexpr absl::string_view kVariable = "TUTTI_WORKER_METRICS=";
  const auto move_on = [index](std::string* text, size_t begin) {
    *text = text->substr(0, begin) + PortFurtherOn(text->substr(begin), index);
  };
  for (size_t i = 0; i < extras.arguments.size(); ++i) {
    std::string& argument = extras.arguments[i];
    if (absl::StartsWith(argument, absl::StrCat(kFlag, "="))) move_on(&argument, kFlag.size() + 1);
    if (i > 0 && extras.arguments[i - 1] == kFlag) move_on(&argument, 0);
  }
  for (std::string& entry : extras.environment) {
    if (absl::StartsWith(entry, kVariable)) move_on(&entry, kVariable.size());
  }
  return extras;
}

bool IsTied(absl::string_view flag) {
  return std::find(std::begin(kTied), std::end(kTied), flag) != std::end(kTied);
}

LocalCluster::LocalCluster(LocalClusterOptions options, std::string dir, bool verbose,
                           Notice notice)
    : options_(std::move(options)),
      dir_(std::move(dir)),
      verbose_(verbose),
      notice_(std::move(notice)) {}

LocalCluster::~LocalCluster() {
  Stop([] { return true; });
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const LocalClusterOptions& options, bool verbose, Notice notice) {
  TUTTI_ASSIGN_OR_RETURN(std::string dir, MakePrivateDir());
  std::unique_ptr<LocalCluster> cluster(
      new LocalCluster(options, std::move(dir), verbose, std::move(notice)));
  TUTTI_RETURN_IF_ERROR(cluster->AddMembers());
  for (auto& member : cluster->members_) {
    TUTTI_RETURN_IF_ERROR(cluster->StartMember(member.get(), Now()));
  }
  return cluster;
}

LocalCluster::Member LocalCluster::MakeMember(const std::string& name,
                                              std::vector<std::string> arguments,
                                              const ProgramExtras& extras) {
  const std::string log_dir = options_.log_dir.empty() ? dir_ : options_.log_dir;
  ChildSpec spec;
  spec.arguments = std::move(arguments);
  spec.arguments.insert(spec.arguments.end(), extras.arguments.begin(), extras.arguments.end());
  // Settings meant for `tutti` (an address, a certificate to show) are not meant for its children.
  spec.environment_dropped = std::string(kEnvironmentPrefix);
  spec.environment = extras.environment;
  spec.log_file = absl::StrCat(log_dir, "/", name, ".log");
  LogFile log(spec.log_file);
  return Member{.name = name, .spec = std::move(spec), .log = std::move(log)};
}

absl::Status LocalCluster::AddMembers() {
  TUTTI_ASSIGN_OR_RETURN(const std::string coordinator, ProgramBeside("tutti-coordinator"));
  TUTTI_ASSIGN_OR_RETURN(const std::string worker, ProgramBeside("tutti-worker"));
  const auto socket = [this](const std::string& name) {
    return absl::StrCat("unix:", dir_, "/", name, ".sock");
  };
  // The private folder's name is random: processes of another `tutti up` are told apart by it.
  const std::string cluster_id = std::filesystem::path(dir_).filename().string();
  const std::string secret = dir_ + "/secret";
  TUTTI_RETURN_IF_ERROR(transport::ClusterSecret::Write(secret));

  std::vector<std::string> arguments = {
      coordinator,     "--model",           options_.model,
      "--listen",      options_.listen,     "--ready-file",
      dir_ + "/ready", "--peer-listen",     socket("coordinator"),
      "--cluster-id",  cluster_id,          "--cluster-secret-file",
      secret,          "--exit-with-parent"};
  members_.push_back(std::make_unique<Member>(
      MakeMember("coordinator", std::move(arguments), options_.coordinator)));

  for (int i = 0; i < options_.workers; ++i) {
    const std::string name = WorkerName(i);
    arguments = {worker,
                 "--model",
                 options_.model,
                 "--coordinator",
                 socket("coordinator"),
                 "--listen",
                 socket(name),
                 "--worker-id",
                 name,
                 "--cluster-id",
                 cluster_id,
                 "--cluster-secret-file",
                 secret,
                 "--threads",
                 absl::StrCat(options_.threads_per_worker),
                 "--memory",
                 absl::StrCat(options_.memory_per_worker),
                 "--device",
                 options_.devices[static_cast<size_t>(i)],
                 "--speed-file",
                 dir_ + "/speeds",
                 "--exit-with-parent"};
    if (options_.share_devices) arguments.push_back("--share-devices");
    for (int peer = 0; peer < options_.workers; ++peer) {
      if (peer == i) continue;
      arguments.push_back("--peer");
      arguments.push_back(absl::StrCat(WorkerName(peer), "=", socket(WorkerName(peer))));
    }
    members_.push_back(std::make_unique<Member>(
        MakeMember(name, std::move(arguments), ExtrasOfWorker(options_.each_worker, i))));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::StartMember(Member* member, Instant now) {
  // A socket left by a process that was killed would keep its successor from listening.
  unlink(absl::StrCat(dir_, "/", member->name, ".sock").c_str());
  if (member == members_.front().get()) unlink((dir_ + "/ready").c_str());
  TUTTI_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(member->spec));
  member->process.emplace(std::move(process));
  member->started = now;
  member->restart_at = kInstantNever;
  return absl::OkStatus();
}

absl::Status LocalCluster::Tick(Instant now) {
  FollowLogs();
  for (auto& member : members_) {
    if (member->process) {
      const auto wait_status = member->process->TryWait();
      if (wait_status) TUTTI_RETURN_IF_ERROR(OnDeath(member.get(), *wait_status, now));
    } else if (now >= member->restart_at) {
      TUTTI_RETURN_IF_ERROR(StartMember(member.get(), now));
    }
  }
  if (!address_) TUTTI_RETURN_IF_ERROR(ReadReadyFile());
  if (!address_ || (listens() && gateway_serves())) return absl::OkStatus();
  return gateway_ == nullptr ? StartGateway(now) : ReadGatewayFile();
}

absl::Status LocalCluster::StartGateway(Instant now) {
  TUTTI_ASSIGN_OR_RETURN(const std::string program, ProgramBeside("tutti-gateway"));
  std::vector<std::string> arguments = {program,
                                        "--coordinator",
                                        *address_,
                                        "--admin",
                                        admin_,
                                        "--listen",
                                        options_.http,
                                        "--or-next-port",
                                        "--ready-file",
                                        dir_ + "/http",
                                        "--drain-timeout",
                                        absl::StrCat(Seconds(options_.drain_timeout)),
                                        "--exit-with-parent"};
  if (!metrics_.empty()) arguments.insert(arguments.end(), {"--metrics-of", metrics_});
  if (!options_.grpc.empty()) arguments.insert(arguments.end(), {"--grpc", options_.grpc});
  members_.push_back(
      std::make_unique<Member>(MakeMember("gateway", std::move(arguments), options_.gateway)));
  gateway_ = members_.back().get();
  return StartMember(gateway_, now);
}

absl::Status LocalCluster::ReadGatewayFile() {
  std::ifstream file(dir_ + "/http", std::ios::binary);
  if (!file) return absl::OkStatus();
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has_text = [&json](const char* key) {
    return json.contains(key) && json[key].is_string();
  };
  if (!json.is_object() || !has_text("address") || !has_text("grpc")) {
    return absl::InternalError(absl::StrCat("the gateway wrote a strange ready file: ", text));
  }
  gateway_serves_ = json.value("ready", true);
  if (!http_address_.empty()) return absl::OkStatus();
  http_address_ = json["address"].get<std::string>();
  grpc_address_ = json["grpc"].get<std::string>();
  // Clients know these addresses: one that is started again has to listen there and nowhere else.
  std::vector<std::string>& arguments = gateway_->spec.arguments;
  std::erase(arguments, "--or-next-port");
  *(std::find(arguments.begin(), arguments.end(), "--listen") + 1) = http_address_;
  if (!grpc_address_.empty()) {
    *(std::find(arguments.begin(), arguments.end(), "--grpc") + 1) = grpc_address_;
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::ReadReadyFile() {
  TUTTI_ASSIGN_OR_RETURN(std::optional<Ready> ready, ParseReadyFile(dir_ + "/ready"));
  if (!ready) return absl::OkStatus();
  address_ = std::move(ready->address);
  admin_ = std::move(ready->admin);
  metrics_ = std::move(ready->metrics);
  // Clients know this address; a coordinator that is started again has to listen there too.
  std::vector<std::string>& arguments = members_.front()->spec.arguments;
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "--listen") arguments[i + 1] = *address_;
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::OnDeath(Member* member, int wait_status, Instant now) {
  FollowLogs();
  member->process.reset();
  const std::string what =
      absl::StrCat(member->name, " ended with ", DescribeWaitStatus(wait_status));
  const std::optional<Duration> delay = member->policy.OnDeath(now - member->started);
  if (has_served_ && delay) {
    notice_(absl::StrCat(what, "; starting it again in ", FormatSeconds(Seconds(*delay))));
    member->restart_at = now + *delay;
    return absl::OkStatus();
  }
  const std::vector<std::string> lines = member->log.LastLines(kLastLogLines);
  if (!has_served_) {
    if (const std::string why = WhyItEnded(lines, member->spec.arguments[0]); !why.empty()) {
      return absl::Status(ExitCodeOfWaitStatus(wait_status) == kExitUsageError
                              ? absl::StatusCode::kInvalidArgument
                              : absl::StatusCode::kAborted,
                          absl::StrCat(member->name, ": ", why));
    }
  }
  if (!verbose_) {
    for (const std::string& line : lines) notice_(absl::StrCat(member->name, " | ", OneLine(line)));
  }
  return absl::AbortedError(
      absl::StrCat(what, has_served_ ? " again and again; giving up" : " before the cluster served",
                   options_.log_dir.empty() ? "" : "; its log is " + member->log.path()));
}

void LocalCluster::FollowLogs() {
  for (auto& member : members_) {
    if (!verbose_) {
      member->log.Bound();
      continue;
    }
    for (const std::string& line : member->log.ReadNewLines()) {
      notice_(absl::StrCat(member->name, " | ", OneLine(line)));
    }
  }
}

bool LocalCluster::WaitUntil(Instant deadline, const std::function<bool()>& sooner) {
  while (true) {
    bool all_ended = true;
    for (const auto& member : members_) {
      std::optional<ChildProcess>& process = member->process;
      if (process && process->TryWait()) process.reset();
      all_ended &= !process.has_value();
    }
    if (all_ended || Now() >= deadline || (sooner && sooner())) return all_ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Also to those that are stopped, as a shell's `kill` does.
void LocalCluster::SignalAll(int signal) const {
  for (const auto& member : members_) {
    if (!member->process) continue;
    member->process->Signal(signal);
    member->process->Signal(SIGCONT);
  }
}

// The coordinator first, so that clients hear its reason and not that of a worker that has gone.
void LocalCluster::Hurry() {
  const Member& coordinator = *members_.front();
  if (coordinator.process) coordinator.process->Signal(SIGTERM);
  // It would wait for another coordinator to go on with its streams.
  if (gateway_ != nullptr && gateway_->process) gateway_->process->Signal(SIGTERM);
  const Instant patience = Now() + std::chrono::milliseconds(kOneSignalMs);
  const auto has_ended = [&] { return !coordinator.process.has_value(); };
  if (!WaitUntil(patience, has_ended)) SignalAll(SIGTERM);
}

void LocalCluster::Stop(const std::function<bool()>& hurried) {
  const Duration grace = options_.drain_timeout;
  const Duration margin = std::chrono::milliseconds(kStopGraceMs);
  const Instant begin = Now();
  SignalAll(SIGTERM);
  if (!WaitUntil(begin + grace + margin, hurried)) {
    // A second signal tells them to hurry, when it comes long enough after the first.
    const Instant again = std::max(Now(), begin + std::chrono::milliseconds(kTellAgainMs));
    if (!WaitUntil(again, nullptr)) Hurry();
    if (!WaitUntil(again + margin, nullptr)) {
      FollowLogs();
      SignalAll(SIGKILL);
      WaitUntil(kInstantNever, nullptr);
    }
  }
  FollowLogs();
}

}  // namespace tutti::client
