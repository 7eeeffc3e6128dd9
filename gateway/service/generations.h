// The requests for generated text of one protocol that are under way.
//
// Thread: the server's loop.
#pragma once

#include <memory>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/service/generation.h"

namespace tutti::gateway {

class Generations {
 public:
  // Keeps those that came before as long as they last.
  void Add(const std::shared_ptr<Generation>& generation);
  // Every kTick.
  void Tick(Instant now);
  // Ends all of them.
  void EndAll(const ApiError& why);

 private:
  std::vector<std::weak_ptr<Generation>> all_;
};

}  // namespace tutti::gateway
