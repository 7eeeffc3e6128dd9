// A client of a Tutti service: blocking calls, streamed output by callback, deadlines and
// cancellation; and Generate calls that take no thread (generate_call.h).
//
// Errors are the service's own status (its message names the field, limit or worker at fault), or
// UNAVAILABLE with the address when the service cannot be reached. A service that is full says when
// to come again: RetryDelayOf (base/retry_delay.h) of the status.
//
// Its functions are in two files, because one of its calls is a way of many steps: generate.cc has
// Generate and Start.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/cancel_token.h"
#include "client/client_options.h"
#include "client/generate_call.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

class Endpoints;
class FirstWaits;

struct CallOptions {
  std::optional<Duration> timeout;  // of the whole call; none: as long as it takes
  CancelToken* cancel = nullptr;    // at most one call at a time uses a token
};

// What is told beside a request, as metadata; nothing of what is empty.
struct CallMetadata {
  std::string traceparent;
  std::string account;  // whose it is, which a service believes of a gateway (x-tutti-account)
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

  // Returns when every output has ended: how each did, in order. A stream that breaks off is gone
  // on with; the messages are those of one stream, no token twice and none missing. INTERNAL: the
  // stream broke the API's promise (positions repeat, leave gaps, or it ends without `finish`).
  absl::StatusOr<std::vector<v1::Finish>> Generate(const v1::GenerateRequest& request,
                                                   const CallOptions& options,
                                                   const OnMessage& on_message);
  // The same without waiting: begins the call and returns. The observer hears of it, and outlives
  // it; so does the client.
  std::unique_ptr<GenerateCall> Start(v1::GenerateRequest request, std::optional<Duration> timeout,
                                      GenerateObserver* observer, CallMetadata metadata = {});
  // Each address of the service is tried once. For any thread: Tokenize, Detokenize, GetModel.
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::GetModelResponse> GetModel(const CallOptions& options = {});
  // Calls of an operator, from one thread at a time. UNAVAILABLE where no operator's port is found.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const CallOptions& options = {});
  absl::StatusOr<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request,
                                                      const CallOptions& options);
  absl::StatusOr<v1::LookupPrefixResponse> LookupPrefix(const v1::LookupPrefixRequest& request,
                                                        const CallOptions& options = {});

 private:
  class Call;
  struct AdminStub;
  Client(ClientOptions options, std::unique_ptr<Endpoints> endpoints);
  // Looked for until it is found.
  absl::StatusOr<const AdminStub*> Admin();

  const ClientOptions options_;
  const std::unique_ptr<Endpoints> endpoints_;
  const std::unique_ptr<FirstWaits> first_waits_;
  std::unique_ptr<AdminStub> admin_;
};

}  // namespace tutti::client
