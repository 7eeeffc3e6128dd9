// The pause before a request that is refused for what it is gets its answer, so that nobody can
// keep us reading what will be refused (docs/decisions/0034-what-the-door-holds.md).
//
// Thread: any.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "transport/credit_book.h"

namespace tutti::door {

// The pause after the refusal of a request of so many bytes. Zero for small ones
// (kSmallRequestBytes), which are not counted. All others are counted for the connection's account:
// up to kOwnPauseBytesMax the pause is no longer than the request's own bytes cost, for larger ones
// it ends with all pauses of the account.
Duration PauseAfterRefusal(transport::ConnectionCredit* credit, int64_t bytes, Instant now);

}  // namespace tutti::door
