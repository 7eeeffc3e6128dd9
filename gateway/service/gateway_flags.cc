#include "gateway/service/gateway_flags.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "gateway/parse/answer_form.h"
#include "program/shared_flags.h"
#include "transport/grpc/grpc_address.h"

namespace tutti::gateway {
namespace {

constexpr char kFooter[] = R"(Examples:
  # in front of a coordinator on this machine, for programs on this machine
  tutti-gateway --coordinator 127.0.0.1:50051 --listen 127.0.0.1:8000
  # for others: over TLS, who has a key (FILE: a tenant and the SHA-256 of its key a line)
  tutti-gateway --coordinator a:50051,b:50051 --listen 0.0.0.0:8443 --api-keys FILE \
      --tls-cert server.pem --tls-key server.key

  # for one person, who has the key
  TUTTI_API_KEY=... tutti-gateway --listen 0.0.0.0:8000 --http-plaintext

  # our own API too, for gRPC clients of any language
  tutti-gateway --coordinator 127.0.0.1:50051 --grpc 127.0.0.1:8001

  curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'

Every option is also read from the environment (TUTTI_LISTEN, ...) and from --config FILE.
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for options or files that cannot
be right.)";

void AddServiceFlags(FlagSet* set, GatewayFlags* flags) {
  set->Add({{.names = "-a,--coordinator,--address",
             .variable = &flags->client.address,
             .help = "Public address of the coordinator: host:port or unix:/path; several of one "
                     "cluster with commas between them",
             .check = IsAddresses(),
             .show_default = true},
            {.names = "--admin",
             .variable = &flags->client.admin,
             .help = "Operator's port of the coordinator, for the page at /: host:port or "
                     "unix:/path; several with commas between them; unset: the socket of a "
                     "coordinator on this machine",
             .check = IsAddresses()},
            {.names = "--resume-within",
             .variable = &flags->client.resume_within,
             .help = "Seconds to try to go on with an answer that broke off, and to wait with a "
                     "new one for a service that was there until then; 0: neither",
             .check = SecondsIn(0, 1e6),
             .show_default = true},
            {.names = "--allow-inexact",
             .variable = &flags->client.allow_inexact,
             .help = "Go on with it also where the numerics class is not exact: its rest may "
                     "differ"},
            {.names = "--certs",
             .variable = &flags->certificate_folder,
             .help = "Folder with ca.crt, tls.crt and tls.key, as `tutti certs issue --role "
                     "gateway` makes it: the three of the next that are not given"},
            {.names = "--coordinator-ca",
             .variable = &flags->client.tls_authority,
             .help = "PEM authority that signed the coordinators' certificates; turns TLS on"},
            {.names = "--coordinator-cert",
             .variable = &flags->client.tls_certificate,
             .help = "PEM certificate of this gateway, for coordinators that require one"},
            {.names = "--coordinator-key",
             .variable = &flags->client.tls_key,
             .help = "PEM key of that certificate"}},
           "The service behind");
}

void AddDoorFlags(FlagSet* set, GatewayFlags* flags) {
  set->Add(
      {{.names = "--listen",
        .variable = &flags->server.listen,
        .help = "Address and port to serve HTTP at; port 0: any free one",
        .check = IsListenAddress(),
        .show_default = true},
       {.names = "--grpc",
        .variable = &flags->grpc,
        .help = "Address to serve our own API (tutti.v1.Inference) over gRPC at, by the same keys "
                "and certificate: host:port or unix:/path; unset: nowhere",
        .check = IsListenAddress()},
       {.names = "--grpc-plaintext",
        .variable = &flags->grpc_plaintext,
        .help = "Serve gRPC without TLS (h2c), also where others reach it: something else, such as "
                "a mesh's proxy, encrypts and keeps strangers out"},
       {.names = "--or-next-port",
        .variable = &flags->server.or_next_port,
        .help = "Where the port is taken, one of the hundred after it"},
       {.names = "--tls-cert",
        .variable = &flags->server.tls_certificate,
        .help = "PEM certificate and chain; with --tls-key only TLS is served"},
       {.names = "--tls-key", .variable = &flags->server.tls_key, .help = "PEM key of it"},
       {.names = "--api-keys",
        .variable = &flags->api_keys,
        .help =
            "File of keys, \"TENANT SHA256\" a line, and \"operator\" behind it for those who may "
            "see /metrics and the map; unset: no keys, and only callers on this machine are "
            "served",
        .check = IsFile()},
       {.names = "--api-key",
        .variable = &flags->api_key,
        .help = "A key in plain text that lets its bearer call, and see /metrics and the page; "
                "better in TUTTI_API_KEY or a file, for others see what a program is told"},
       {.names = "--api-key-file",
        .variable = &flags->api_key_file,
        .help = "A file with that key",
        .check = IsFile(),
        .excludes = {"--api-key"}},
       {.names = "--without-keys",
        .variable = &flags->without_keys,
        .help = "Serve callers of other machines without keys: something else keeps strangers out"},
       {.names = "--http-plaintext",
        .variable = &flags->http_plaintext,
        .help = "Serve HTTP without TLS also where others reach it: something else, such as a "
                "mesh's proxy, encrypts"},
       {.names = "--allow-host",
        .variable = &flags->allowed_hosts,
        .help = "Another name of this server that requests without keys may use",
        .list = FlagList::kRepeated},
       {.names = "--cors-origin",
        .variable = &flags->cors_origins,
        .help = "Pages of this origin may call, such as https://chat.example; *: all may",
        .list = FlagList::kRepeated},
       {.names = "--max-connections",
        .variable = &flags->server.connections_max,
        .help = "Connections at once; a newcomer ends the one that is idle for longest",
        .check = IntegerIn(1, 1000000),
        .show_default = true},
       {.names = "--keep-alive",
        .variable = &flags->server.idle_time,
        .help = "Seconds that a connection may be without a request: longer than clients and "
                "balancers in front keep theirs",
        .check = SecondsIn(1, 86400),
        .show_default = true}},
      "The door");
}

void AddAnswerFlags(FlagSet* set, GatewayFlags* flags) {
  // Checks keep no copy.
  static const auto* const tools = new std::string("auto," + ToolFormNames());
  static const auto* const reasoning = new std::string("auto," + ReasoningFormNames());
  set->Add({{.names = "--tool-parser",
             .variable = &flags->tool_parser,
             .help = HelpIn(kGatewayFlags, "--tool-parser"),
             .check = OneOf(*tools),
             .show_default = true},
            {.names = "--reasoning-parser",
             .variable = &flags->reasoning_parser,
             .help = HelpIn(kGatewayFlags, "--reasoning-parser"),
             .check = OneOf(*reasoning),
             .show_default = true},
            {.names = "--reasoning-content",
             .variable = &flags->reasoning_content,
             .help = HelpIn(kGatewayFlags, "--reasoning-content")},
            {.names = "--heartbeat",
             .variable = &flags->heartbeat,
             .help = HelpIn(kGatewayFlags, "--heartbeat"),
             .check = SecondsIn(0, 3600)}},
           "Answers");
}

bool HasKeys(const GatewayFlags& flags) {
  return !flags.api_keys.empty() || !flags.api_key.empty() || !flags.api_key_file.empty();
}

absl::Status CheckKeys(const char* flag, const std::string& listen, const GatewayFlags& flags) {
  if (listen.empty() || transport::IsLocalAddress(listen)) return absl::OkStatus();
  if (HasKeys(flags) || flags.without_keys) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      flag, " ", listen,
      ": whoever reaches this address could use the service; give --api-key or --api-keys, or "
      "say --without-keys if something else keeps strangers out"));
}

}  // namespace

absl::Status CheckDoors(const GatewayFlags& flags) {
  if (flags.without_keys && HasKeys(flags)) {
    return absl::InvalidArgumentError("--without-keys and a key contradict each other");
  }
  if (flags.http_plaintext && !flags.server.tls_certificate.empty()) {
    return absl::InvalidArgumentError("--http-plaintext and --tls-cert contradict each other");
  }
  const std::string& listen = flags.server.listen;
  TUTTI_RETURN_IF_ERROR(CheckListen(listen));
  TUTTI_RETURN_IF_ERROR(CheckKeys("--listen", listen, flags));
  TUTTI_RETURN_IF_ERROR(CheckKeys("--grpc", flags.grpc, flags));
  if (transport::IsLocalAddress(listen) || flags.http_plaintext ||
      !flags.server.tls_certificate.empty()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--listen ", listen,
                   ": keys and texts could be read on their way; give --tls-cert and --tls-key, or "
                   "say --http-plaintext if something else, such as a mesh's proxy, encrypts"));
}

void AddGatewayFlags(FlagSet* set, GatewayFlags* flags) {
  set->AddVersion(BuildStamp());
  set->ReadEnvironment(kEnvironmentPrefix);
  set->AddFile("Read options from this file (TOML; the keys are the options without --)");
  AddServiceFlags(set, flags);
  AddDoorFlags(set, flags);
  AddAnswerFlags(set, flags);
  set->Add({
      {.names = "--traces",
       .variable = &flags->traces.file,
       .help = HelpIn(kTraceFlags, "--traces")},
      {.names = "--otlp-endpoint",
       .variable = &flags->traces.endpoint,
       .help = HelpIn(kTraceFlags, "--otlp-endpoint")},
      {.names = "--metrics-of",
       .variable = &flags->metrics_of,
       .help = "The coordinator's --metrics, host:port: /metrics tells what it says too",
       .check = IsAddress()},
      {.names = "--ready-file",
       .variable = &flags->ready_file,
       .help =
           "Write {\"address\": ..., \"ready\": ...} here once it listens, and again once /ready "
           "is 200"},
  });
  AddDaemonFlags("Seconds running requests get to finish; a second signal ends them", set,
                 &flags->daemon);
  set->AddFooter(kFooter);
}

}  // namespace tutti::gateway
