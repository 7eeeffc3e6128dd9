#include "transport/grpc/self_probe.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <future>
#include <memory>
#include <utility>

#include "base/thread.h"
#include "spdlog/spdlog.h"

namespace tutti::transport {
namespace {

// The destructor waits for this thread, which therefore looks this often whether it is to end.
constexpr std::chrono::milliseconds kStopLook{100};
constexpr char kNoMethod[] = "/tutti.v1.Port/Alive";

void EndProcess(const std::string& address) {
  spdlog::critical(
      "{} answers no calls, not even this process's own, and opening it again did not help: "
      "ending, "
      "so that another process can take its place",
      address);
  // Not shutdown: other threads log, and would find no logger.
  spdlog::default_logger_raw()->flush();
  std::_Exit(EXIT_FAILURE);
}

// Whether a server has answered, be it with a refusal.
bool IsAnswer(const grpc::Status& status) {
  return status.error_code() != grpc::StatusCode::UNAVAILABLE &&
         status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         status.error_code() != grpc::StatusCode::CANCELLED;
}

}  // namespace

SelfProbe::SelfProbe(AcceptLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      thread_(StartThread("the probe of a port", [this] { Run(); })) {}

SelfProbe::~SelfProbe() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    stopping_.NotifyAll();
  }
  thread_.join();
}

bool SelfProbe::IsStopping() {
  const MutexLock lock(&mutex_);
  return stop_;
}

absl::Status SelfProbe::Connect(const OwnCall& call) {
  if (connect(call.fd.get(), call.to.get(), call.to.size) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return absl::ErrnoToStatus(errno, "connect");
  const auto deadline = std::chrono::steady_clock::now() + options_.deadline;
  pollfd waiting{.fd = call.fd.get(), .events = POLLOUT, .revents = 0};
  while (poll(&waiting, 1, static_cast<int>(kStopLook.count())) != 1) {
    if (IsStopping() || std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError("the connection was not made in time");
    }
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(call.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "connect");
}

bool SelfProbe::Sleep() {
  const auto deadline = std::chrono::steady_clock::now() + options_.interval;
  const MutexLock lock(&mutex_);
  while (!stop_ && stopping_.WaitUntil(&mutex_, deadline)) continue;
  return !stop_;
}

absl::Status SelfProbe::CallOnce() {
  TUTTI_ASSIGN_OR_RETURN(OwnCall own, loop_->PrepareCall());
  TUTTI_RETURN_IF_ERROR(Connect(own));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  grpc::GenericStub stub(
      grpc::CreateCustomInsecureChannelFromFd("probe", own.fd.Release(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.deadline);
  const grpc::Slice nothing;
  grpc::ByteBuffer request(&nothing, 1), response;
  auto answered = std::make_shared<std::promise<grpc::Status>>();
  stub.UnaryCall(&context, kNoMethod, {}, &request, &response,
                 [answered](const grpc::Status& status) { answered->set_value(status); });
  std::future<grpc::Status> answer = answered->get_future();
  while (answer.wait_for(kStopLook) != std::future_status::ready) {
    if (IsStopping()) context.TryCancel();
  }
  const grpc::Status status = answer.get();
  if (IsAnswer(status)) return absl::OkStatus();
  return absl::UnavailableError(status.error_message());
}

void SelfProbe::Run() {
  int misses = 0;
  while (Sleep()) {
    const absl::Status status = CallOnce();
    if (status.ok()) {
      if (misses > 0) spdlog::info("{} answers again", loop_->address());
      misses = 0;
      continue;
    }
    // Without a descriptor to call with, nothing is known about the port.
    if (absl::IsResourceExhausted(status)) continue;
    ++misses;
    spdlog::warn("{} did not answer this process's own call ({} in a row): {}", loop_->address(),
                 misses, std::string(status.message()));
    if (misses == options_.misses) {
      spdlog::error("{} is opened again", loop_->address());
      loop_->Reopen();
    } else if (misses == 2 * options_.misses) {
      const auto& end = options_.on_deaf;
      return end ? end(loop_->address()) : EndProcess(loop_->address());
    }
  }
}

}  // namespace tutti::transport
