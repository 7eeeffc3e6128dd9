// Guesses by somebody who knows the right answers, and is wrong now and then.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "coordinator/steps/guess_source.h"
#include "tests/support/sim_clients.h"
#include "tests/support/sim_options.h"

namespace tutti::tests {

class SimGuesses : public coordinator::GuessSource {
 public:
  // REQUIRES: both outlive this
  SimGuesses(const SimOptions* options, const SimClients* clients)
      : options_(options), clients_(clients), random_(options->seed, /*stream=*/11) {}

  int32_t Guess(const coordinator::Sequence& sequence, int32_t most,
                std::vector<TokenId>* guesses) override;
  void Forget(const coordinator::Sequence&) override {}

 private:
  const SimOptions* const options_;
  const SimClients* const clients_;
  Random random_;
};

}  // namespace tutti::tests
