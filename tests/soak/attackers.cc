#include "tests/soak/attackers.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/peer_messages.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::tests {
namespace {

using WallClock = std::chrono::system_clock;

constexpr std::chrono::seconds kCallTimeout{30};
// Between two tries, so that an attacker who is refused at once does not only burn its own time.
constexpr std::chrono::milliseconds kPause{5};

constexpr char kGenerate[] = "/tutti.v1.Inference/Generate";
constexpr char kConnect[] = "/tutti.peer.v1.Peer/Connect";

std::string NameOf(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK ? "OK" : absl::StrCat("status ", static_cast<int>(code));
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

// A call of raw bytes, one operation at a time.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
          WallClock::time_point deadline) {
    context_.set_deadline(deadline);
    stream_ = grpc::GenericStub(channel).PrepareCall(&context_, method, &queue_);
    stream_->StartCall(this);
    Next();
  }
  ~RawCall() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  bool Write(const grpc::ByteBuffer& bytes) {
    stream_->Write(bytes, this);
    return Next();
  }
  bool WritesDone() {
    stream_->WritesDone(this);
    return Next();
  }
  bool Read() {
    grpc::ByteBuffer bytes;
    stream_->Read(&bytes, this);
    return Next();
  }
  grpc::StatusCode Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    Next();
    return status.error_code();
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// Sends the bytes as a request and reads the answer to its end, again and again.
void Repeat(const AttackTargets& targets, const std::string& bytes, const std::atomic<bool>& stop,
            AttackCount* count) {
  const std::shared_ptr<grpc::Channel> channel = NewChannel(targets.address);
  while (!stop) {
    ++count->tries;
    RawCall call(channel, kGenerate, WallClock::now() + kCallTimeout);
    if (call.Write(BufferOf(bytes)) && call.WritesDone()) {
      while (!stop && call.Read()) {
      }
    }
    if (!stop) ++count->ends[NameOf(call.Finish())];
    std::this_thread::sleep_for(kPause);
  }
}

v1::GenerateRequest SmallRequest() {
  v1::GenerateRequest request;
  request.set_text("1+1=");
  request.mutable_sampling()->set_max_tokens(16);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

void Ordinary(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  Repeat(targets, SmallRequest().SerializeAsString(), stop, count);
}

void Wide(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::GenerateRequest request = SmallRequest();
  request.set_n(64);
  request.mutable_sampling()->set_temperature(100);
  Repeat(targets, request.SerializeAsString(), stop, count);
}

void Long(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::GenerateRequest request = SmallRequest();
  request.clear_text();
  request.set_n(64);
  for (int i = 0; i < 45009; ++i) request.mutable_token_ids()->add_ids(100 + i % 100);
  Repeat(targets, request.SerializeAsString(), stop, count);
}

void Heavy(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::GenerateRequest request = SmallRequest();
  std::string text;
  while (text.size() < 4'000'000) absl::StrAppend(&text, text.size(), " a word and ");
  request.set_text(std::move(text));
  Repeat(targets, request.SerializeAsString(), stop, count);
}

void Nested(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::GenerateRequest request = SmallRequest();
  request.mutable_chat();
  for (int i = 0; i < 4'000'000; ++i) request.mutable_chat()->add_messages();
  Repeat(targets, request.SerializeAsString(), stop, count);
}

void Unread(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::GenerateRequest request = SmallRequest();
  request.mutable_sampling()->set_max_tokens(4000);
  request.mutable_sampling()->set_logprobs(true);
  request.mutable_sampling()->set_top_logprobs(20);
  const std::string bytes = request.SerializeAsString();
  const std::shared_ptr<grpc::Channel> channel = NewChannel(targets.address);
  constexpr size_t kCalls = 16;
  while (!stop) {
    std::vector<std::unique_ptr<RawCall>> calls;
    while (!stop && calls.size() < kCalls) {
      ++count->tries;
      calls.push_back(
          std::make_unique<RawCall>(channel, kGenerate, WallClock::now() + kCallTimeout));
      calls.back()->Write(BufferOf(bytes));
      calls.back()->WritesDone();
    }
    for (int i = 0; i < 100 && !stop; ++i) std::this_thread::sleep_for(20 * kPause);
  }
}

void Half(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  const std::shared_ptr<grpc::Channel> channel = NewChannel(targets.address);
  std::vector<std::unique_ptr<RawCall>> calls;
  constexpr size_t kCalls = 200;
  while (!stop) {
    if (calls.size() < kCalls) {
      ++count->tries;
      // Opened, and never written to.
      calls.push_back(
          std::make_unique<RawCall>(channel, kGenerate, WallClock::now() + 10 * kCallTimeout));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void Flood(const AttackTargets& targets, const std::atomic<bool>& stop, AttackCount* count) {
  v1::Frame frame;
  frame.set_epoch(1);
  frame.mutable_activation()->set_step(1);
  frame.set_payload(std::string(1 << 20, 'x'));
  const grpc::ByteBuffer bytes = BufferOf(frame.SerializeAsString());
  size_t next = 0;
  while (!stop && !targets.peer_addresses.empty()) {
    ++count->tries;
    const std::string& address = targets.peer_addresses[next++ % targets.peer_addresses.size()];
    RawCall call(NewChannel(address), kConnect, WallClock::now() + kCallTimeout);
    while (!stop && call.Write(bytes)) {
    }
    if (!stop) ++count->ends[NameOf(call.Finish())];
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::vector<NamedAttack> AllAttacks() {
  return {{"wide", 1, Wide},     {"long", 1, Long}, {"heavy", 8, Heavy}, {"nested", 4, Nested},
          {"unread", 1, Unread}, {"half", 1, Half}, {"flood", 2, Flood}};
}

std::vector<NamedAttack> OrdinaryInsteadOf(const std::vector<NamedAttack>& attacks) {
  int threads = 0;
  for (const NamedAttack& attack : attacks) threads += attack.threads;
  return {{"ordinary", threads, Ordinary}};
}

void Attackers::Start(const std::vector<NamedAttack>& attacks) {
  stop_ = false;
  for (const NamedAttack& attack : attacks) {
    for (int i = 0; i < attack.threads; ++i) {
      counts_.emplace_back(attack.name, std::make_unique<AttackCount>());
      threads_.emplace_back([this, act = attack.attack, count = counts_.back().second.get()] {
        act(targets_, stop_, count);
      });
    }
  }
}

void Attackers::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::map<std::string, std::map<std::string, int64_t>> Attackers::Ends() const {
  std::map<std::string, std::map<std::string, int64_t>> all;
  for (const auto& [name, count] : counts_) {
    all[name]["tries"] += count->tries;
    for (const auto& [status, times] : count->ends) all[name][status] += times;
  }
  return all;
}

}  // namespace tutti::tests
