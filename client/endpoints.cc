#include "client/endpoints.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/address.h"
#include "base/retry_delay.h"
#include "client/limits.h"
#include "client/resuming_answer.h"
#include "transport/certificate_folder.h"
#include "transport/grpc/grpc_address.h"

namespace tutti::client {
namespace {

std::optional<Duration> RetryDelay(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("retry-after-ms");
  int64_t ms = 0;
  if (found == metadata.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &ms) ||
      ms < 0 || ms > kRetryDelayMsMax) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(ms);
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return std::string();
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string pem(std::istreambuf_iterator<char>(file), {});
  if (!file || pem.empty()) {
    return absl::NotFoundError(absl::StrCat("cannot read the PEM file ", path, ": ",
                                            file         ? "it is empty"
                                            : errno == 0 ? "no regular file"
                                                         : std::strerror(errno)));
  }
  if (!absl::StrContains(pem, "-----BEGIN ")) {
    return absl::InvalidArgumentError(absl::StrCat("the file ", path, " is no PEM file"));
  }
  return pem;
}

// gRPC tells the whole way to a failed connection; this is what of it a person can act upon, and
// how.
std::string WhyNoConnection(const std::string& message) {
  struct Reason {
    absl::string_view sign;
    absl::string_view text;
  };
  static constexpr absl::string_view kStart =
      "; start one (tutti up --model DIR), or name another address (--address)";
  static constexpr Reason kReasons[] = {
      {"Connection refused", "nobody listens there"},
      {"No such file or directory", "there is no such socket"},
      {"Permission denied", "this user may not enter that socket"},
      {"Domain name not found", "no host has that name"},
      {"DNS resolution failed", "the host's name cannot be looked up"},
      {"No route to host", "there is no way to that host"},
      {"Network is unreachable", "there is no way to that host"},
  };
  for (const Reason& reason : kReasons) {
    if (absl::StrContains(message, reason.sign)) return absl::StrCat(reason.text, kStart);
  }
  if (absl::StrContains(message, "certificate verify failed") ||
      absl::StrContains(message, "CERTIFICATE_VERIFY_FAILED")) {
    return "its certificate was not signed by the authority given (--tls-ca)";
  }
  if (absl::StrContains(message, "WRONG_VERSION_NUMBER") ||
      absl::StrContains(message, "wrong version number")) {
    return "it does not speak TLS; leave --tls-ca out, or name another address (--address)";
  }
  static constexpr absl::string_view kLast = "last error: ";
  const size_t last = message.rfind(std::string(kLast));
  return absl::StrCat(last == std::string::npos ? message : message.substr(last + kLast.size()),
                      "; is it a Tutti service, and does it want TLS (--tls-ca)?");
}

// Errors that gRPC finds before the service's own code runs have no details, and say what is wrong
// but not what to do.
absl::Status FromGrpcItself(absl::StatusCode code, const std::string& words) {
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::Status(
        code, absl::StrCat("the service does not know this call", words.empty() ? "" : ": ", words,
                           "; is it a Tutti service (--address), and as new as this client?"));
  }
  if (code == absl::StatusCode::kResourceExhausted && absl::StrContains(words, "larger than max")) {
    return absl::Status(code, absl::StrCat("a message is too large for one end, whatever else it "
                                           "does: ",
                                           words, "; send, or ask for, less at once"));
  }
  return absl::Status(code, words);
}

// OK: metadata can carry the key. Never says the key.
absl::Status CheckKey(absl::string_view key) {
  const bool is_text = std::all_of(key.begin(), key.end(), absl::ascii_isgraph);
  if (is_text && key.size() <= kApiKeyBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      is_text ? absl::StrCat("the API key is longer than ", kApiKeyBytesMax, " bytes")
              : "the API key holds a character that is a blank or not printable ASCII");
}

}  // namespace

bool IsMadeUp(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return status.error_details().empty();
  struct Words {
    grpc::StatusCode code;
    absl::string_view begin;
  };
  // The words as client/python/tutti/_course.py has them.
  static constexpr Words kWords[] = {{grpc::StatusCode::UNKNOWN, "Stream removed"},
                                     {grpc::StatusCode::INTERNAL, "Received RST_STREAM"}};
  for (const Words& words : kWords) {
    if (status.error_code() == words.code &&
        absl::StartsWith(status.error_message(), words.begin)) {
      return true;
    }
  }
  return false;
}

// The status as callers see it. gRPC reports a service that cannot be reached and a service that
// says UNAVAILABLE with the same code; the channel's state tells them apart.
absl::Status ToStatusOf(grpc::Channel* channel, const grpc::Status& status,
                        const grpc::ClientContext& context, const std::string& address) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      channel->GetState(false) != GRPC_CHANNEL_READY) {
    const absl::Status none =
        absl::UnavailableError(absl::StrCat("no connection to a Tutti service at ", address, ": ",
                                            WhyNoConnection(status.error_message())));
    return IsNeverConnected(status.error_message()) ? NeverConnected(none) : none;
  }
  if (IsMadeUp(status)) {
    const absl::Status broke =
        absl::UnavailableError(absl::StrCat("the connection to the Tutti service at ", address,
                                            " broke off (gRPC: ", status.error_message(), ")"));
    return IsNeverConnected(status.error_message()) ? NeverConnected(broke) : broke;
  }
  const absl::Status ours = status.error_details().empty()
                                ? FromGrpcItself(code, status.error_message())
                                : absl::Status(code, status.error_message());
  const auto delay = RetryDelay(context);
  return delay ? WithRetryDelay(ours, *delay) : ours;
}

absl::Status FillFromFolder(const std::string& folder, ClientOptions* options) {
  transport::TlsFiles files = {options->tls_certificate, options->tls_key, options->tls_authority};
  TUTTI_RETURN_IF_ERROR(transport::FillFromFolder(folder, &files));
  options->tls_certificate = files.certificate;
  options->tls_key = files.key;
  options->tls_authority = files.authority;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ClientOptions& options) {
  const bool has_certificate = !options.tls_certificate.empty();
  if (has_certificate != !options.tls_key.empty() ||
      (has_certificate && options.tls_authority.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TLS needs the authority alone, or authority, certificate and key; there is no ",
        !has_certificate          ? "certificate"
        : options.tls_key.empty() ? "key"
                                  : "authority"));
  }
  if (options.tls_authority.empty()) return grpc::InsecureChannelCredentials();
  // An error in a file is said now, by name.
  for (const std::string* path :
       {&options.tls_authority, &options.tls_certificate, &options.tls_key}) {
    TUTTI_RETURN_IF_ERROR(ReadPem(*path).status());
  }
  grpc::experimental::TlsChannelCredentialsOptions tls;
  tls.set_certificate_provider(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      options.tls_key, options.tls_certificate, options.tls_authority, kCertificateLookS));
  tls.watch_root_certs();
  if (has_certificate) tls.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(tls);
}

grpc::ChannelArguments MakeChannelArguments(int ping_after_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kClientMessageBytesMax);
  arguments.SetMaxSendMessageSize(kClientMessageBytesMax);
  // gRPC's own retries keep what was sent; a message that is larger is never sent again.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, kRetryBufferBytes);
  // How long one attempt to connect may take, and how soon the next follows.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A service whose machine vanished says nothing at all: pings tell, during calls only. A client
  // that waits sends nothing else, and would stop after two pings.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ping_after_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Our services are addressed directly. A proxy of the environment, meant for the web, would be
  // asked for 127.0.0.1.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  return grpc::CreateCustomChannel(address, credentials, MakeChannelArguments(kKeepaliveTimeMs));
}

absl::Status Endpoint::ToStatus(const grpc::Status& status,
                                const grpc::ClientContext& context) const {
  return ToStatusOf(channel.get(), status, context, address);
}

void Endpoint::Reconnect() const {
  grpc::experimental::ChannelResetConnectionBackoff(channel.get());
}

void Endpoint::Authorize(grpc::ClientContext* context) const {
  if (!api_key.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", api_key));
}

absl::StatusOr<std::unique_ptr<Endpoints>> Endpoints::Create(const ClientOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options));
  TUTTI_RETURN_IF_ERROR(CheckKey(options.api_key));
  auto endpoints = std::make_unique<Endpoints>();
  for (const absl::string_view address : absl::StrSplit(options.address, ',')) {
    auto endpoint = std::make_unique<Endpoint>();
    endpoint->address = std::string(address);
    TUTTI_RETURN_IF_ERROR(
        Annotate(CheckAddress(endpoint->address, AddressUse::kDial), "the address"));
    if (!options.api_key.empty() && options.tls_authority.empty() && !options.api_key_in_clear &&
        !transport::IsLocalAddress(endpoint->address)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the API key would go to ", address,
                       " in the clear; turn TLS on (--tls-ca), or allow it (--api-key-in-clear)"));
    }
    endpoint->api_key = options.api_key;
    endpoint->channel = MakeChannel(endpoint->address, credentials);
    endpoint->stub = v1::Inference::NewStub(endpoint->channel);
    endpoints->all_.push_back(std::move(endpoint));
  }
  return endpoints;
}

void Endpoints::OnFailed(const Endpoint& endpoint) {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].get() != &endpoint) continue;
    size_t failed = i;
    preferred_.compare_exchange_strong(failed, (i + 1) % all_.size());
  }
}

}  // namespace tutti::client
