// The clients of a simulated cluster: they know the right answers, leave early, and watch that
// every request ends once.
//
// Its functions are in two files, because clients that come again have rules of their own:
// sim_clients_resume.cc.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/events.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"

namespace tutti::tests {

// Processes of workers that have ended: killed by somebody, or by what they computed.
struct SimDeaths {
  int32_t outside = 0;
  int32_t of_work = 0;
};

class SimClients {
 public:
  using EventCallback = std::function<void(coordinator::Event)>;
  using FailCallback = std::function<void(const std::string&)>;

  // REQUIRES: all pointers outlive the clients.
  SimClients(const SimOptions* options, SimQueue* queue, EventCallback to_engine, FailCallback fail,
             const SimDeaths* deaths);

  // Sends the run's requests at their times.
  void Start();
  // Sends one more request.
  void Probe(bool must_succeed);

  void OnTokens(const coordinator::DeliverTokens& tokens);
  void OnFinish(const coordinator::FinishRequest& finish);
  // Either all outputs of a request or none were refused.
  void CheckGroups(const std::set<std::string>& faulty) const;
  // All clients with an open request leave.
  void Storm();
  // The coordinator is gone: all streams break, and go on with the one that leads now.
  void GoElsewhere();
  // The whole right output of a request; empty: it is unknown.
  std::span<const v1::SampledToken> RightOf(RequestId id) const {
    const auto found = requests_.find(id);
    if (found == requests_.end()) return {};
    return found->second.right;
  }
  bool AllEnded() const { return open_ == 0; }
  std::string Open() const;
  uint64_t ended_well() const { return ended_well_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t arrived() const { return requests_.size(); }
  // The number of these, at the coordinator that leads now.
  uint64_t arrived_here() const { return requests_.size() - arrived_before_; }
  uint64_t tokens_here() const { return tokens_ - tokens_before_; }
  // Tokens that tenants may be charged by it: of all prompts, and all that they have.
  int64_t MostCharged() const;
  uint64_t resumed() const { return resumed_; }

 private:
  struct Client {
    coordinator::Request request;
    std::vector<v1::SampledToken> right;  // the whole right output
    std::vector<v1::SampledToken> got;
    std::optional<int32_t> stop_after;  // tokens, then a stop string is found
    bool cancelled = false;
    bool stopped = false;
    bool must_succeed = false;
    bool ended = false;
    absl::StatusCode end = absl::StatusCode::kOk;
    int32_t tries = 0;
    Duration not_before{};  // when the answer it goes on from may be there
    std::string numerics;   // of its first tokens; empty: none came
    bool taken_over = false;
    bool foreign = false;  // goes on in a class that is not this cluster's

    // It has had nothing but what it came with.
    bool untouched() const { return got.size() == request.output.size(); }
  };

  void DrawMask(coordinator::Request* request);
  std::vector<TokenId> DrawPrompt(int32_t tenant, int32_t room, Duration* not_before);
  int32_t MostCached(const Client& client, RequestId id) const;

  Client Draw();
  // It may ask what somebody has asked before, of whatever tenant; the answer is the same.
  void Repeat(Client* client);
  // The outputs of one request arrive at once.
  void Arrive(std::vector<Client> outputs, RequestId taken_over = RequestId(),
              int32_t taken_over_outputs = 0);
  std::vector<Client> DrawOutputs(Client client);
  void Retry(const Client& client);
  // The client of the request comes again, with all outputs: its connection broke off, or it takes
  // its stream over.
  void Resume(RequestId first);
  Client GoOn(RequestId id, bool take_over);
  std::string CheckGoodEnd(const Client& client, const coordinator::FinishRequest& finish) const;
  std::string CheckBadEnd(const Client& client, const coordinator::FinishRequest& finish) const;

  const SimOptions* const options_;
  SimQueue* const queue_;
  const EventCallback to_engine_;
  const FailCallback fail_;
  const SimDeaths* const deaths_;
  Random random_, masks_, grammars_, guesses_, repeats_;
  std::vector<Client> drawn_;  // that may be repeated
  // A conversation so far: a prompt and its right answer.
  struct Conversation {
    int32_t tenant = 0;
    std::vector<TokenId> tokens;
    Duration arrival{};
  };
  std::vector<Conversation> conversations_;
  std::map<RequestId, Client> requests_;
  uint64_t last_id_ = 0;
  int64_t open_ = 0;  // requests to come or not ended
  uint64_t ended_well_ = 0;
  uint64_t resumed_ = 0;
  uint64_t tokens_ = 0;
  // When the coordinator that leads now began to.
  uint64_t arrived_before_ = 0;
  uint64_t tokens_before_ = 0;
  uint64_t last_id_before_ = 0;
};

}  // namespace tutti::tests
