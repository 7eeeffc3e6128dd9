// Turns token ids into text and writes it to the clients' streams, on a thread of its own, so that
// neither the engine nor an RPC thread ever waits for a detokenizer or a slow client.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mailbox.h"
#include "coordinator/events.h"
#include "coordinator/metrics/request_metrics.h"
#include "coordinator/service/output_options.h"
#include "door/output_stream.h"

namespace tutti::text {
class Tokenizer;
}  // namespace tutti::text

namespace tutti::coordinator {

// The outputs of one request: consecutive ids, and the seeds that generation.proto promises.
inline RequestId IdOfOutput(RequestId first, int32_t output) {
  return RequestId(first.value() + static_cast<uint64_t>(output));
}
inline uint64_t SeedOfOutput(uint64_t seed, int32_t output) {
  return seed + static_cast<uint64_t>(output);
}

class OutputHub {
 public:
  // Tells the engine that an output wants no more tokens: a stop string ended its text, or another
  // output of its request failed (kClientGone: no client will read it).
  using OnUnwanted = std::function<void(RequestId, CancelCause)>;
  // REQUIRES: tokenizer and clock outlive the hub.
  // `tokenizer` null: answers have ids and no text. `metrics` null: nothing is counted.
  OutputHub(const text::Tokenizer* tokenizer, const Clock* clock, OnUnwanted on_unwanted,
            RequestMetrics* metrics = nullptr);
  ~OutputHub();

  void Start();
  void Stop();

  // Thread: any. Opens the outputs `first`, first + 1, … of one request, `n` of them, which share
  // the stream: it ends when the last of them does, or with the first that fails. Comes before they
  // are given to the engine. Of an answer that goes on, what the client has is not sent again.
  void Open(RequestId first, int32_t n, OutputOptions options,
            std::shared_ptr<door::OutputStream> stream);
  void Tokens(DeliverTokens tokens);
  void Finish(FinishRequest finish);
  // The client left: the stream of these outputs is dropped without a final status.
  void Forget(RequestId first, int32_t n);
  // Streams not ended yet.
  int64_t open_streams() const { return open_streams_.load(); }

 private:
  struct Opened {
    RequestId first;
    int32_t n = 1;
    OutputOptions options;
    std::shared_ptr<door::OutputStream> stream;
  };
  struct Forgotten {
    RequestId first;
    int32_t n = 1;
  };
  using Item = std::variant<Opened, DeliverTokens, FinishRequest, Forgotten>;
  class Output;
  struct Group;

  void Run();
  template <typename What>
  void HandleWithinMemory(What what);
  // Ends the stream, and those of its outputs that have not ended.
  void Fail(std::shared_ptr<Group> group, const absl::Status& status);
  void Handle(Opened opened);
  void Handle(DeliverTokens tokens);
  void Handle(FinishRequest finish);
  void Handle(Forgotten forgotten);
  // Erases those of these outputs that are left, and returns them.
  std::vector<RequestId> Erase(RequestId first, int32_t n);

  const text::Tokenizer* const tokenizer_;
  const Clock* const clock_;
  const OnUnwanted on_unwanted_;
  // The counts of what nobody wants to know.
  std::unique_ptr<RequestMetrics> uncounted_;
  RequestMetrics* const metrics_;
  Mailbox<Item> mailbox_;
  std::atomic<int64_t> open_streams_{0};
  std::thread thread_;
  // Owned by the output thread.
  std::unordered_map<RequestId, std::unique_ptr<Output>> outputs_;
};

}  // namespace tutti::coordinator
