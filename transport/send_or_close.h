// Sending as every owner of a link does it.
#pragma once

#include "base/status.h"
#include "transport/link.h"

namespace tutti::transport {

// Sends one frame. A frame that cannot be sent ends the link: its peer would wait for it, and be
// blamed. Both ends and the log get to know why. UNAVAILABLE: the link was closed already, and says
// so itself.  Thread: any.
absl::Status SendOrClose(Link* link, v1::Frame frame, Payload payload = {});

}  // namespace tutti::transport
