// EtcdCalls over etcd's gRPC API, version 3.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/etcd_calls.h"
#include "etcd/etcd.grpc.pb.h"
#include "transport/certificates.h"

namespace tutti::coordinator {

struct EtcdOptions {
  std::vector<std::string> addresses;  // host:port; any of them may be down
  std::string prefix;                  // of the keys: PREFIX/leader and PREFIX/number
  // PEM files; with an authority alone etcd is asked for its certificate and shown none.
  transport::TlsFiles tls;
};

class GrpcEtcd : public EtcdCalls {
 public:
  // INVALID_ARGUMENT: no address, or not all files of a certificate. NOT_FOUND: a file.
  static absl::StatusOr<std::unique_ptr<GrpcEtcd>> Create(const EtcdOptions& options);

  absl::StatusOr<EtcdView> Look(Duration patience) override;
  absl::StatusOr<int64_t> Grant(int64_t seconds, Duration patience) override;
  absl::StatusOr<int64_t> KeepAlive(int64_t lease, Duration patience) override;
  absl::Status Revoke(int64_t lease, Duration patience) override;
  absl::StatusOr<bool> Campaign(const EtcdView& view, const EtcdView::Leader& self,
                                Duration patience) override;

 private:
  struct Server {
    std::string address;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  };
  using Call = std::function<grpc::Status(const Server&, grpc::ClientContext*)>;

  GrpcEtcd() = default;
  // Asks the server that answered last, then the others, while the patience lasts.
  absl::Status Ask(Duration patience, const Call& call);

  std::string leader_key_, number_key_;
  std::vector<Server> servers_;
  size_t current_ = 0;
};

}  // namespace tutti::coordinator
