// The addresses of a service, and the connection to each. Coordinators of one cluster are one
// service: a call that fails at one goes on at the next.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/client_options.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {

// Sets the TLS files that `options` leaves open (transport/certificate_folder.h); no folder: none.
absl::Status FillFromFolder(const std::string& folder, ClientOptions* options);
// Credentials by the TLS files of the options, as they are when a connection is made.
// INVALID_ARGUMENT for an incomplete set, NOT_FOUND for a file that cannot be read.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ClientOptions& options);
// The settings by which connections are made and watched: a call that hears nothing for
// `ping_after_ms` pings.
grpc::ChannelArguments MakeChannelArguments(int ping_after_ms);
// Does not connect yet.
std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// One address.  Thread: any.
struct Endpoint {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Inference::Stub> stub;
  std::string api_key;

  // Adds the key, where there is one, to a call that begins.
  void Authorize(grpc::ClientContext* context) const;
  // The status of a call as callers see it.
  absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) const;
  // A connection that waits before it is tried again is tried at once.
  void Reconnect() const;
};

// Whether gRPC made this status up for a stream that ended without one: the connection failed, and
// nobody said anything of the request. What our services say has details; words alone are gRPC's.
// (The state of the channel would not tell: it may be connected again by the time it is asked.)
bool IsMadeUp(const grpc::Status& status);

// The status of a call over any channel. One that gRPC made up is UNAVAILABLE, as a connection that
// breaks in any other way.
absl::Status ToStatusOf(grpc::Channel* channel, const grpc::Status& status,
                        const grpc::ClientContext& context, const std::string& address);

// Thread: any.
class Endpoints {
 public:
  // Endpoints by the addresses, the TLS files and the key of the options. INVALID_ARGUMENT also for
  // a key that would be told in the clear to another machine; errors of MakeCredentials.
  static absl::StatusOr<std::unique_ptr<Endpoints>> Create(const ClientOptions& options);

  size_t size() const { return all_.size(); }
  // The one that calls go to.
  const Endpoint& preferred() const { return *all_[preferred_.load()]; }
  // A call failed there: if it is still preferred, the next is from now on.
  void OnFailed(const Endpoint& endpoint);
  // An answer of the service has come, from whichever address; and whether one has within a time.
  void OnServed(Instant now) { served_at_ = now.time_since_epoch().count(); }
  bool ServedWithin(Duration time, Instant now) const {
    const int64_t at = served_at_;
    return at > 0 && now - Instant(Duration(at)) < time;
  }

 private:
  std::vector<std::unique_ptr<Endpoint>> all_;  // constant after Create
  std::atomic<size_t> preferred_{0};
  std::atomic<int64_t> served_at_{0};  // since the clock's beginning; 0: never
};

}  // namespace tutti::client
