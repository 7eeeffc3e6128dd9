// The coordinator's brain: decides what runs where. Pure: no thread, socket, clock or random source
// inside. The same events at the same times always produce the same actions, which is what the
// simulator relies on.
//
// Thread: the engine thread only (engine_loop.h owns it).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/kv/prefix_hash.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes one event into account. Never plans: a burst of events must not cause a burst of plans.
  void Handle(Event event, Instant now, std::vector<Action>* actions);
  // Acts on everything handled so far: expires leases and deadlines, forms pipelines, fills them
  // with steps. Once per drained batch of events.
  void Advance(Instant now, std::vector<Action>* actions);
  // The latest time Advance must be called even if no event arrives.
  Instant next_deadline() const;

  // What an operator sees. Does not change anything.
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;
  // Which pipelines hold how much of a prompt, and which workers that is.
  void LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                    v1::LookupPrefixResponse* response) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::coordinator
