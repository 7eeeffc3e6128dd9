// The address under which other workers reach this one, as it tells each coordinator: what its
// operator said, or the address of this machine on the route to that coordinator.
//
// Names are resolved on a thread of their own, which may take as long as the resolver does.
//
// Thread: any.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::worker {

class Announcer {
 public:
  // Nothing is announced: others have this worker in their tables.
  Announcer() = default;
  // `advertise`: HOST, or HOST:PORT where that is not the port of `listen`; empty: see above.
  // `listen`: where this worker listens, with its port; what is no TCP address is not announced,
  // nor, with a line of log, an IPv6 address of one interface.
  // INVALID_ARGUMENT when no worker could be reached under `advertise`.
  static absl::StatusOr<Announcer> Create(const std::string& advertise, const std::string& listen);

  // The address for the hello to the coordinator at this address; "" where nothing is announced.
  // ABORTED while its name is being resolved, UNAVAILABLE when that has failed: ask again, which
  // tries again.
  absl::StatusOr<std::string> AddressFor(const std::string& coordinator);
  // Routes may have changed.
  void Forget();

 private:
  struct Routes;

  std::string address_;  // always; empty: none, or by `routes_`
  int port_ = 0;
  std::shared_ptr<Routes> routes_;  // null: none are looked for
};

}  // namespace tutti::worker
