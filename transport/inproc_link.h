// Links between the parts of one process: the same contract and limits as over a network, without
// one.
//
// Frames and payloads are handed over as they are; nothing is encoded or copied. All deliveries of
// a network are made by its one thread, so a handler that blocks stops every link of that network.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/link.h"

namespace tutti::transport {

// The names by which the links of one process find each other.
class InprocNetwork {
 public:
  InprocNetwork();
  // Closes every link with UNAVAILABLE and waits for the last OnClosed. Links and dialers may
  // outlive it; they are of no more use then.  REQUIRES: not called by a handler.
  ~InprocNetwork();
  InprocNetwork(const InprocNetwork&) = delete;
  InprocNetwork& operator=(const InprocNetwork&) = delete;

  // From now on `accept` gets the links dialled to `name`, on the delivery thread; a null handler
  // refuses a link with PERMISSION_DENIED. ALREADY_EXISTS when the name is taken.  Thread: any.
  absl::Status Listen(const std::string& name, AcceptCallback accept);

  // Frees the name and closes the links accepted under it with UNAVAILABLE.  Thread: any.
  void StopListening(const std::string& name);

  // Dials names of this network; a name without a listener is an OnClosed with UNAVAILABLE.
  std::unique_ptr<Dialer> MakeDialer();

 private:
  const std::shared_ptr<class InprocState> state_;
};

}  // namespace tutti::transport
