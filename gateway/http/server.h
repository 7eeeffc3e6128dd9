// An HTTP/1.1 server: one loop on one thread for all connections, which are bounded in number and
// time.
//
// Thread: the one that calls Run, unless said otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "door/byte_budget.h"
#include "gateway/http/exchange.h"
#include "gateway/limits.h"

namespace tutti::gateway {

struct ServerOptions {
  std::string listen = "127.0.0.1:8000";  // host:port; port 0: any free one
  bool or_next_port = false;              // where the port is taken, one of those after it
  // PEM files; both or none.
  std::string tls_certificate;
  std::string tls_key;
  int64_t connections_max = kConnectionsMax;
  Duration idle_time = kIdleTime;  // of a connection without a request
  // Of requests on their way and what becomes of them, and of answers that nobody reads. Outlives
  // the server and all requests.
  door::ByteBudget* budget = nullptr;
};

// Whether a server could listen at such an address: it has a port, and its host is numeric.
absl::Status CheckListen(const std::string& listen);

class HttpServer {
 public:
  // Listens. An error names what cannot be.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(const ServerOptions& options,
                                                            HttpHandler* handler,
                                                            const Clock* clock);
  virtual ~HttpServer() = default;

  // host:port it listens at.
  virtual const std::string& address() const = 0;
  // Serves until Stop.
  virtual void Run() = 0;
  // Runs `job` on the loop soon, or never if the loop has ended.  Thread: any.
  virtual void Post(std::function<void()> job) = 0;
  // From now on each connection ends with the answer it is at. New ones are served, and told so.
  virtual void Drain() = 0;
  // Requests under way.
  virtual int64_t exchanges() const = 0;
  // Bytes read from clients since the beginning.
  virtual int64_t read_bytes() const = 0;
  // Bytes that are held in its budget.
  virtual int64_t held_bytes() const = 0;
  // Connections that made way for others since the beginning.
  virtual int64_t evicted() const = 0;
  // Ends all connections and Run.
  virtual void Stop() = 0;
};

}  // namespace tutti::gateway
