// Turns token ids into text and writes it to the clients' streams, on a thread of its own, so that
// neither the engine nor an RPC thread ever waits for a detokenizer or a slow client.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mailbox.h"
#include "coordinator/engine.h"
#include "coordinator/output_stream.h"
#include "model/stop_matcher.h"

namespace tutti {

class Tokenizer;

// What the hub needs to know of a request.
struct OutputOptions {
  std::vector<std::string> stop;            // the strings of stop_matcher
  std::optional<StopMatcher> stop_matcher;  // none: nothing stops the text
  std::vector<TokenId> stop_token_ids;      // sorted; their text is not part of the output
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool logprobs = false;
  uint64_t seed = 0;
  Instant arrival;
};

class OutputHub {
 public:
  // `on_stop_string` tells the engine that a request wants no more tokens.  REQUIRES: tokenizer and
  // clock outlive the hub.
  OutputHub(const Tokenizer* tokenizer, const Clock* clock,
            std::function<void(RequestId)> on_stop_string);
  ~OutputHub();

  void Start();
  void Stop();

  // Thread: any. Open comes before the request is given to the engine.
  void Open(RequestId request, OutputOptions options, std::shared_ptr<OutputStream> stream);
  void Tokens(DeliverTokens tokens);
  void Finish(FinishRequest finish);
  // The client left: its stream is let go without a word.
  void Forget(RequestId request);
  // Streams not ended yet.
  int64_t open_streams() const { return open_streams_.load(); }

 private:
  struct Opened {
    RequestId request;
    OutputOptions options;
    std::shared_ptr<OutputStream> stream;
  };
  struct Forgotten {
    RequestId request;
  };
  using Item = std::variant<Opened, DeliverTokens, FinishRequest, Forgotten>;
  class Output;

  void Run();
  void Take(Opened opened);
  void Take(DeliverTokens tokens);
  void Take(FinishRequest finish);
  void Take(Forgotten forgotten);

  const Tokenizer* const tokenizer_;
  const Clock* const clock_;
  const std::function<void(RequestId)> on_stop_string_;
  Mailbox<Item> mailbox_;
  std::atomic<int64_t> open_streams_{0};
  std::thread thread_;
  // Owned by the output thread.
  std::unordered_map<RequestId, std::unique_ptr<Output>> outputs_;
};

}  // namespace tutti
