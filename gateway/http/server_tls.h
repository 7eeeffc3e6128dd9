// The TLS of an HTTP server, whose files may be replaced while it serves.
//
// Thread: one.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/certificates.h"

namespace tutti::gateway {

class ServerTls {
 public:
  // Null where neither is given. INVALID_ARGUMENT for one without the other, and the errors of
  // Certificates::Open.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Open(const std::string& certificate,
                                                         const std::string& key);

  // Settings for the next connection, with the files as they are now; where they are not good, as
  // they last were. Good until the next call; connections that were made of it keep what they need.
  boost::asio::ssl::context* Current();

 private:
  explicit ServerTls(std::shared_ptr<transport::Certificates> certificates)
      : certificates_(std::move(certificates)) {}
  absl::Status Take(std::shared_ptr<const transport::Certificates::Texts> texts);

  const std::shared_ptr<transport::Certificates> certificates_;
  std::shared_ptr<const transport::Certificates::Texts> texts_;  // of the context
  std::unique_ptr<boost::asio::ssl::context> context_;
};

}  // namespace tutti::gateway
