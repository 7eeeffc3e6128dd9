#include "transport/send_or_close.h"

#include <utility>

#include "spdlog/spdlog.h"

namespace tutti::transport {

absl::Status SendOrClose(Link* link, v1::Frame frame, Payload payload) {
  absl::Status status = link->Send(std::move(frame), std::move(payload));
  if (status.ok() || absl::IsUnavailable(status)) return status;
  status = Annotate(status, "a frame could not be sent");
  spdlog::error("closing the link to {}: {}", link->peer(), status.ToString());
  link->Close(status);
  return status;
}

}  // namespace tutti::transport
