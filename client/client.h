// A client of a Tutti service: blocking calls, streamed output by callback, deadlines and
// cancellation; and Generate calls that take no thread (generate_call.h).
//
// Errors are the service's own status (its message names the field, limit or worker at fault), or
// UNAVAILABLE with the address when the service cannot be reached. A service that is full says when
// to come again: RetryDelayOf (base/retry_delay.h) of the status.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "client/generate_call.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// Ends calls from another thread. Once cancelled it stays so.
//
// Thread: any.
class CancelToken {
 public:
  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void Cancel();
  bool cancelled() const;

 private:
  friend class CancelScope;
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);  // of the call in progress
};

struct CallOptions {
  std::optional<Duration> timeout;  // of the whole call; none: as long as it takes
  CancelToken* cancel = nullptr;    // at most one call at a time uses a token
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port, or unix:/path
  // Of the operator's port, for GetStatus and LookupPrefix; empty: the socket of the service at
  // `address`, where that is on this machine (transport/private_folder.h).
  std::string admin;
  // PEM files. With an authority the connection is encrypted and the service must carry a
  // certificate of its; with certificate and key we prove who we are as well.
  std::string tls_authority;
  std::string tls_certificate;
  std::string tls_key;
};

class Client {
 public:
  // Does not connect yet: the first call does. INVALID_ARGUMENT for an address that cannot be one
  // or an incomplete set of TLS files, NOT_FOUND for a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options);
  ~Client();

  // Called for every message of the stream, in order, on the calling thread. A status that is not
  // OK cancels the call and is returned from Generate.
  using OnMessage = std::function<absl::Status(const v1::GenerateResponse&)>;

  // Returns when the stream has ended: how each output did, in order. INTERNAL: the stream broke
  // the API's promise (positions repeat, leave gaps, or the stream ends without `finish`).
  absl::StatusOr<std::vector<v1::Finish>> Generate(const v1::GenerateRequest& request,
                                                   const CallOptions& options,
                                                   const OnMessage& on_message);
  // The same without waiting: begins the call and returns. The observer hears of it, and outlives
  // it; so does the client.
  std::unique_ptr<GenerateCall> Start(v1::GenerateRequest request, std::optional<Duration> timeout,
                                      GenerateObserver* observer);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::GetModelResponse> GetModel(const CallOptions& options = {});
  // Calls of an operator, from one thread at a time. UNAVAILABLE where no operator's port is found.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const CallOptions& options = {});
  absl::StatusOr<v1::LookupPrefixResponse> LookupPrefix(const v1::LookupPrefixRequest& request,
                                                        const CallOptions& options = {});

  const std::string& address() const { return address_; }

 private:
  struct Stubs;
  class CallReactor;
  struct AdminStub;
  Client(ClientOptions options, std::unique_ptr<Stubs> stubs);
  // Looked for until it is found.
  absl::StatusOr<const AdminStub*> Admin();

  const std::string address_;
  const ClientOptions options_;
  const std::unique_ptr<Stubs> stubs_;
  std::unique_ptr<AdminStub> admin_;
};

}  // namespace tutti::client
