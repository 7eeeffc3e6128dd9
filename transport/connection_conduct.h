// Whether a connection keeps to what a client does: its bytes become requests.
//
// Judged by its bytes, wherever in HTTP/2 they are and whether or not they are encrypted: header
// blocks without end, streams opened and reset, settings and priorities by the thousand are all
// bytes that become nothing. A debt grows by what was read of the connection, and shrinks by the
// requests that came whole, by what was sent to it (clients acknowledge that) and with time.
//
//   * More debt than kDebtBytesMax, and no message is on its way: it is over. Messages on their way
//     have a bounded size (kMessageDebtBytesMax each, kMessagesDebtBytesMax all), and behind each
//     stream that waits for its next message one may be. Where others of the account were cut, one
//     of the largest may be, and others as far as its account is lent their bytes (`lendable`).
//   * But a message that is too large is all read before gRPC refuses it, and who sent it must hear
//     so: the debt of lost messages, kDebtBytesMax for each at least, is set aside. It is paid off
//     at kLostPaidPerSecond; while more than kLostBytesMax are, no more is.
//   * Its socket was not empty for kCaptiveMax (kSlowedCaptiveMax) of processor time, and it is in
//     debt for that time, by fewer bytes than a thread reads of messages (kCaptiveBytesPerSecond),
//     or by bytes that were all acknowledged: one of gRPC's does nothing else, whatever is said to
//     be on its way.
//
// A connection in stalls that others cause has bytes unread too, but no debt; one that a busy
// machine lets wait takes no processor time.  Thread: one.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti::transport {

// The facts that the system tells of a socket.
struct SocketState {
  int64_t received = 0;  // since it was opened
  int64_t sent = 0;
  int64_t unread = 0;  // of those received
};

class Conduct {
 public:
  explicit Conduct(Instant now) : looked_at_(now) {}

  struct Standing {
    int64_t credited = 0;    // bytes of requests that came whole, since it was opened
    int32_t reading = 0;     // calls whose message has not come whole yet
    int32_t waiting = 0;     // streams that wait for another one
    int64_t lost = 0;        // messages that did not come whole, since it was opened
    bool is_slowed = false;  // others of its account were cut
    int64_t lendable = 0;    // if so: what it may owe for further messages
    // Processor time of this process since the last look: no thread was kept busy for longer.
    Duration busy = Duration::max();
  };
  // False: the connection must end.
  bool Judge(const SocketState& socket, const Standing& standing, Instant now);

  int64_t debt_bytes() const { return debt_; }
  // Of it, what is owed for further messages; 0 where no others were cut.
  int64_t borrowed() const { return borrowed_; }

 private:
  // Whether lost messages explain the debt; if so, it is set aside.
  bool SetAside(const Standing& standing);

  SocketState socket_;
  int64_t credited_ = 0;
  Instant looked_at_;
  int64_t debt_ = 0;
  int64_t borrowed_ = 0;
  int64_t set_aside_ = 0;
  int64_t lost_ = 0;  // before there was a debt that ends a connection
  // While there was something unread at every look.
  int looks_ = 0;
  Duration captive_for_{};
  int64_t captive_debt_ = 0;
};

}  // namespace tutti::transport
