// The faults of a simulated cluster, drawn from its seed: workers that die, hang and slow down,
// links that are cut, clients that leave all at once.
//
// Thread: one.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "tests/support/sim_clients.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"
#include "tests/support/sim_worker.h"

namespace tutti::tests {

class SimFaults {
 public:
  // REQUIRES: all pointers outlive this.
  SimFaults(const SimOptions* options, SimQueue* queue,
            const std::vector<std::unique_ptr<SimWorker>>* workers, SimClients* clients)
      : options_(options),
        queue_(queue),
        workers_(workers),
        clients_(clients),
        random_(options->seed, /*stream=*/4) {}

  // Puts the run's faults into the queue.  REQUIRES: there is a worker
  void Schedule();
  // Starts again the workers that still have a cut link.
  void RepairCuts();

  // The workers that something was done to, so far: they may be lost.
  const std::set<std::string>& faulty() const { return faulty_; }

 private:
  void Fault();
  void ResetOne();
  void SlowOne();
  void NoteCut(SimWorker* deaf);

  const SimOptions* const options_;
  SimQueue* const queue_;
  const std::vector<std::unique_ptr<SimWorker>>* const workers_;
  SimClients* const clients_;
  Random random_;
  // Workers that hear nothing on some link, and the epoch of that link.
  std::vector<std::pair<SimWorker*, Epoch>> cuts_;
  std::set<std::string> faulty_;
};

}  // namespace tutti::tests
