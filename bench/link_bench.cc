#include "bench/link_bench.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/crc32c.h"
#include "transport/grpc/frame_codec.h"
#include "transport/grpc/grpc_link.h"
#include "transport/inproc_link.h"
#include "transport/limits.h"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The peer's treatment of a frame, told by its epoch.
enum Request : uint64_t { kSwallow = 0, kEcho = 1 };

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

v1::Frame MakeFrame(Request request) {
  v1::Frame frame;
  frame.set_epoch(request);
  v1::Activation* activation = frame.mutable_activation();
  activation->set_step(1000);
  activation->set_rows(1);
  activation->set_total_rows(1);
  activation->set_row_bytes(2048);
  activation->set_checksum(0x12345678);
  return frame;
}

transport::Payload MakePayload(int64_t size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size, std::byte{7});
  transport::Payload payload;
  payload.chunks.push_back(*bytes);
  payload.owner = std::move(bytes);
  return payload;
}

// The far end: swallows frames or sends them back.
class Echo : public transport::LinkHandler {
 public:
  explicit Echo(std::unique_ptr<transport::Link> link) : link_(std::move(link)) {}
  void OnFrame(v1::Frame frame, transport::Payload payload) override {
    if (frame.epoch() == kEcho) (void)link_->Send(std::move(frame), std::move(payload));
  }
  void OnClosed(absl::Status reason) override {}

 private:
  const std::unique_ptr<transport::Link> link_;
};

std::unique_ptr<transport::LinkHandler> AcceptEcho(std::unique_ptr<transport::Link> link) {
  return std::make_unique<Echo>(std::move(link));
}

// The near end: calls the running measurement for each frame that comes back.
class Near {
 public:
  std::unique_ptr<transport::LinkHandler> MakeHandler() { return std::make_unique<Handler>(this); }
  void OnEcho(std::function<void(v1::Frame, transport::Payload)> callback) {
    const MutexLock lock(&mutex_);
    callback_ = std::move(callback);
  }

 private:
  std::function<void(v1::Frame, transport::Payload)> Callback() {
    const MutexLock lock(&mutex_);
    return callback_;
  }

  class Handler : public transport::LinkHandler {
   public:
    explicit Handler(Near* near) : near_(near) {}
    void OnFrame(v1::Frame frame, transport::Payload payload) override {
      near_->Callback()(std::move(frame), std::move(payload));
    }
    void OnClosed(absl::Status reason) override {
      if (reason.ok()) return;
      // The measurement waits for an echo that cannot come; the child ends with this process.
      std::fprintf(stderr, "link: %s\n", reason.ToString().c_str());
      std::_Exit(1);
    }

   private:
    Near* const near_;
  };

  Mutex mutex_;
  std::function<void(v1::Frame, transport::Payload)> callback_ ABSL_GUARDED_BY(mutex_);
};

// Each round trip starts on the thread that received the last one, so no thread of ours is waited
// for.
std::vector<double> RoundTrips(transport::Link* link, Near* near, const LinkBenchOptions& options) {
  const transport::Payload payload = MakePayload(options.round_trip_payload_bytes);
  const auto warm_up = static_cast<size_t>(options.round_trips / 10);
  std::vector<double> seconds;
  std::promise<void> done;
  Clock::time_point sent;
  near->OnEcho([&](v1::Frame, transport::Payload) {
    seconds.push_back(SecondsSince(sent));
    if (seconds.size() == warm_up + static_cast<size_t>(options.round_trips)) {
      return done.set_value();
    }
    sent = Clock::now();
    (void)link->Send(MakeFrame(kEcho), payload);
  });
  sent = Clock::now();
  (void)link->Send(MakeFrame(kEcho), payload);
  done.get_future().wait();
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warm_up));
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// Sends `count` frames one way, at most `ahead` queued, and waits for the last one's echo.
double OneWay(transport::Link* link, Near* near, int count, int ahead,
              const transport::Payload& payload) {
  std::promise<void> done;
  near->OnEcho([&](v1::Frame, transport::Payload) { done.set_value(); });
  const int64_t before = link->stats().frames_out;
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    while (i - (link->stats().frames_out - before) >= ahead) std::this_thread::yield();
    (void)link->Send(MakeFrame(kSwallow), payload);
  }
  (void)link->Send(MakeFrame(kEcho));
  done.get_future().wait();
  return SecondsSince(begin);
}

void Measure(const char* name, transport::Dialer* dialer, const std::string& target,
             const LinkBenchOptions& options) {
  Near near;
  auto link = dialer->Dial(target, near.MakeHandler());
  const std::vector<double> trips = RoundTrips(link.get(), &near, options);
  const transport::Payload chunk = MakePayload(transport::kPayloadChunkBytes);
  const double chunk_seconds = OneWay(link.get(), &near, options.chunks, 32, chunk);
  const double frame_seconds = OneWay(link.get(), &near, options.frames, 1000, {});
  std::printf("%-8s %9.1f %9.1f %9.1f %12.2f %12.0f\n", name, trips.front() * 1e6,
              trips[trips.size() / 2] * 1e6, trips[trips.size() * 99 / 100] * 1e6,
              static_cast<double>(options.chunks) *
                  static_cast<double>(transport::kPayloadChunkBytes) / chunk_seconds * 1e-9,
              options.frames / frame_seconds);
  near.OnEcho([](v1::Frame, transport::Payload) {});
}

void MeasureChecksum() {
  const transport::Payload chunk = MakePayload(transport::kPayloadChunkBytes);
  double best = 0;
  uint32_t crc = 0;
  for (int run = 0; run < 5; ++run) {
    const auto begin = Clock::now();
    for (int i = 0; i < 200; ++i) crc ^= transport::Crc32c(chunk.chunks);
    best = std::max(best, 200.0 * transport::kPayloadChunkBytes / SecondsSince(begin) * 1e-9);
  }
  std::printf("checksum of a 1 MiB chunk: %.1f GB/s (%08x)\n", best, crc);
}

// Whether a payload travels as the memory it lies in.
bool IsUncopied(transport::Dialer* inproc) {
  const transport::Payload chunk = MakePayload(transport::kPayloadChunkBytes);
  std::vector<grpc::Slice> slices;
  const bool in_buffer = transport::EncodeFrame(MakeFrame(kEcho), chunk).Dump(&slices).ok() &&
                         slices.size() == 2 &&
                         static_cast<const void*>(slices[1].begin()) == chunk.chunks[0].data();
  Near near;
  std::promise<const std::byte*> arrived;
  near.OnEcho(
      [&](v1::Frame, transport::Payload payload) { arrived.set_value(payload.chunks[0].data()); });
  auto link = inproc->Dial("echo", near.MakeHandler());
  (void)link->Send(MakeFrame(kEcho), chunk);
  return arrived.get_future().get() == chunk.chunks[0].data() && in_buffer;
}

// The child process: serves until its parent closes the pipe. Tells the addresses, one a line.
[[noreturn]] void Serve(const std::string& socket, int tell, int stay) {
  auto over_unix = transport::GrpcPeerServer::Start({"unix:" + socket, {}}, AcceptEcho);
  auto over_tcp = transport::GrpcPeerServer::Start({"127.0.0.1:0", {}}, AcceptEcho);
  if (!over_unix.ok() || !over_tcp.ok()) _exit(1);
  const std::string line = (*over_tcp)->address() + "\n";
  if (write(tell, line.data(), line.size()) < 0) _exit(1);
  char unused;
  (void)!read(stay, &unused, 1);
  (*over_unix)->Stop();
  (*over_tcp)->Stop();
  _exit(0);
}

std::string ReadLine(int fd) {
  std::string line;
  char next;
  while (read(fd, &next, 1) == 1 && next != '\n') line.push_back(next);
  return line;
}

}  // namespace

int RunLinkBench(const LinkBenchOptions& options) {
  if (options.round_trip_payload_bytes > transport::kPayloadBytesMax) {
    std::fprintf(stderr, "a payload has at most %ld bytes\n",
                 static_cast<long>(transport::kPayloadBytesMax));
    return 2;
  }
  const std::string socket = "/tmp/tutti-link-bench-" + std::to_string(getpid());
  int tell[2], stay[2];
  if (pipe(tell) != 0 || pipe(stay) != 0) return 1;
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    close(stay[1]);
    Serve(socket, tell[1], stay[0]);
  }
  close(tell[1]);
  const std::string tcp_target = ReadLine(tell[0]);
  if (tcp_target.empty()) return 1;

  transport::InprocNetwork network;
  if (!network.Listen("echo", AcceptEcho).ok()) return 1;
  const auto inproc = network.MakeDialer();
  auto dialer = transport::GrpcDialer::Create();
  if (!dialer.ok()) return 1;
  std::printf("%-8s %9s %9s %9s %12s %12s\n", "", "RTT min", "median", "p99", "1 MiB",
              "no payload");
  std::printf("%-8s %9s %9s %9s %12s %12s\n", "link", "us", "us", "us", "GB/s", "frames/s");
  Measure("inproc", inproc.get(), "echo", options);
  Measure("unix", dialer->get(), "unix:" + socket, options);
  Measure("tcp", dialer->get(), tcp_target, options);
  MeasureChecksum();
  std::printf("payload bytes copied by the transport: %s\n",
              IsUncopied(inproc.get()) ? "0 (its memory is what is handed to the socket)" : "some");
  close(stay[1]);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace tutti::bench
