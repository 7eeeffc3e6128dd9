#include "coordinator/service/grpc_etcd.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/plain_name.h"
#include "coordinator/limits.h"
#include "transport/grpc/grpc_runtime.h"

namespace tutti::coordinator {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

absl::StatusOr<std::string> FileText(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.good() || file.eof()) {
    if (!text.empty()) return text;
  }
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const transport::TlsFiles& files) {
  if (!files.any()) return grpc::InsecureChannelCredentials();
  if (files.authority.empty() || files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "etcd over TLS needs --etcd-ca, and --etcd-cert with --etcd-key or neither");
  }
  grpc::SslCredentialsOptions options;
  TUTTI_ASSIGN_OR_RETURN(options.pem_root_certs, FileText(files.authority));
  TUTTI_ASSIGN_OR_RETURN(options.pem_cert_chain, FileText(files.certificate));
  TUTTI_ASSIGN_OR_RETURN(options.pem_private_key, FileText(files.key));
  return grpc::SslCredentials(options);
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& address) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("etcd at ", address, ": ", status.error_message()));
}

std::string ValueOf(const EtcdView::Leader& leader) {
  return absl::StrCat(leader.number, " ", leader.name);
}

absl::StatusOr<EtcdView::Leader> LeaderOf(const KeyValue& found, const std::string& key) {
  EtcdView::Leader leader;
  const std::vector<std::string> words = absl::StrSplit(found.value(), ' ');
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &leader.number) || !IsPlainName(words[1])) {
    return absl::DataLossError(absl::StrCat("etcd's key ", key,
                                            " is no leader's (a number and a name); choose another "
                                            "--etcd-prefix, or remove it"));
  }
  leader.name = words[1];
  leader.lease = found.lease();
  return leader;
}

// The one value of a range of one key; null: there is none.
const KeyValue* OneOf(const TxnResponse& response, int index) {
  if (index >= response.responses_size()) return nullptr;
  const auto& range = response.responses(index).response_range();
  return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcEtcd>> GrpcEtcd::Create(const EtcdOptions& options) {
  if (options.addresses.empty() || options.addresses.size() > kEtcdServersMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--etcd: expected 1 to ", kEtcdServersMax, " addresses"));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options.tls));
  TUTTI_RETURN_IF_ERROR(transport::KeepGrpcRunning());
  std::unique_ptr<GrpcEtcd> etcd(new GrpcEtcd);
  etcd->leader_key_ = absl::StrCat(options.prefix, "/leader");
  etcd->number_key_ = absl::StrCat(options.prefix, "/number");
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kEtcdReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kEtcdReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kEtcdReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  for (const std::string& address : options.addresses) {
    const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
    etcd->servers_.push_back(
        {address, etcdserverpb::KV::NewStub(channel), etcdserverpb::Lease::NewStub(channel)});
  }
  return etcd;
}

absl::Status GrpcEtcd::Ask(Duration patience, const Call& call) {
  absl::Status status;
  const auto each = patience / static_cast<int64_t>(servers_.size());
  for (size_t i = 0; i < servers_.size(); ++i) {
    const Server& server = servers_[current_];
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(each));
    status = FromGrpc(call(server, &context), server.address);
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
    current_ = (current_ + 1) % servers_.size();
  }
  return status;
}

absl::StatusOr<EtcdView> GrpcEtcd::Look(Duration patience) {
  // No comparison: all of it succeeds.
  TxnRequest request;
  request.add_success()->mutable_request_range()->set_key(leader_key_);
  request.add_success()->mutable_request_range()->set_key(number_key_);
  TxnResponse response;
  TUTTI_RETURN_IF_ERROR(Ask(patience, [&](const Server& server, grpc::ClientContext* context) {
    return server.kv->Txn(context, request, &response);
  }));
  EtcdView view;
  if (const KeyValue* leader = OneOf(response, 0)) {
    TUTTI_ASSIGN_OR_RETURN(view.leader, LeaderOf(*leader, leader_key_));
  }
  if (const KeyValue* number = OneOf(response, 1)) {
    TUTTI_ASSIGN_OR_RETURN(const EtcdView::Leader last, LeaderOf(*number, number_key_));
    view.last_number = last.number;
    view.last_number_revision = number->mod_revision();
  }
  return view;
}

absl::StatusOr<int64_t> GrpcEtcd::Grant(int64_t seconds, Duration patience) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcdserverpb::LeaseGrantResponse response;
  TUTTI_RETURN_IF_ERROR(Ask(patience, [&](const Server& server, grpc::ClientContext* context) {
    return server.lease->LeaseGrant(context, request, &response);
  }));
  if (response.error().empty() && response.ttl() >= seconds) return response.id();
  return absl::UnavailableError(
      absl::StrCat("etcd grants a lease of ", response.ttl(), " s where ", seconds,
                   " were asked for", response.error().empty() ? "" : ": ", response.error()));
}

absl::StatusOr<int64_t> GrpcEtcd::KeepAlive(int64_t lease, Duration patience) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  TUTTI_RETURN_IF_ERROR(Ask(patience, [&](const Server& server, grpc::ClientContext* context) {
    const auto stream = server.lease->LeaseKeepAlive(context);
    const bool answered = stream->Write(request) && stream->WritesDone() && stream->Read(&response);
    if (answered) {
      // The rest is of no interest; the status would be waited for.
      context->TryCancel();
      (void)stream->Finish();
      return grpc::Status::OK;
    }
    const grpc::Status status = stream->Finish();
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : status;
  }));
  if (response.ttl() <= 0) return absl::NotFoundError("the lease has run out");
  return response.ttl();
}

absl::Status GrpcEtcd::Revoke(int64_t lease, Duration patience) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  return Ask(patience, [&](const Server& server, grpc::ClientContext* context) {
    return server.lease->LeaseRevoke(context, request, &response);
  });
}

absl::StatusOr<bool> GrpcEtcd::Campaign(const EtcdView& view, const EtcdView::Leader& self,
                                        Duration patience) {
  TxnRequest request;
  Compare* const nobody = request.add_compare();
  nobody->set_result(Compare::EQUAL);
  nobody->set_target(Compare::CREATE);
  nobody->set_key(leader_key_);
  nobody->set_create_revision(0);
  Compare* const same = request.add_compare();
  same->set_result(Compare::EQUAL);
  same->set_target(Compare::MOD);
  same->set_key(number_key_);
  same->set_mod_revision(view.last_number_revision);
  auto* const leader = request.add_success()->mutable_request_put();
  leader->set_key(leader_key_);
  leader->set_value(ValueOf(self));
  leader->set_lease(self.lease);
  auto* const number = request.add_success()->mutable_request_put();
  number->set_key(number_key_);
  number->set_value(ValueOf(self));
  TxnResponse response;
  TUTTI_RETURN_IF_ERROR(Ask(patience, [&](const Server& server, grpc::ClientContext* context) {
    return server.kv->Txn(context, request, &response);
  }));
  return response.succeeded();
}

}  // namespace tutti::coordinator
