#include "client/command.h"

#include <google/protobuf/util/json_util.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/retry_delay.h"
#include "client/format.h"

namespace tutti::client {

int Fail(const absl::Status& status) {
  std::string message = OneLine(status.message());
  if (const auto delay = RetryDelayOf(status)) {
    absl::StrAppend(&message, "; try again in ", FormatSeconds(Seconds(*delay)));
  }
  std::fprintf(stderr, "tutti: %s\n", message.c_str());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
      return kExitUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitDeadline;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

void AddServiceFlags(CLI::App* app, ServiceFlags* flags) {
  app->add_option("-a,--address,--server", flags->client.address,
                  "Address of the service: host:port or unix:/path")
      ->envname("TUTTI_ADDRESS")
      ->capture_default_str();
  const auto add_tls = [&](const char* name, const char* env, std::string* value,
                           const char* help) {
    app->add_option(name, *value, help)->envname(env)->group("TLS");
  };
  add_tls("--tls-ca", "TUTTI_TLS_CA", &flags->client.tls_authority,
          "PEM authority that signed the service's certificate; turns TLS on");
  add_tls("--tls-cert", "TUTTI_TLS_CERT", &flags->client.tls_certificate,
          "PEM certificate of ours, for a service that asks for one");
  add_tls("--tls-key", "TUTTI_TLS_KEY", &flags->client.tls_key, "PEM key of that certificate");
  app->add_option("--timeout", flags->timeout_s,
                  "Seconds to wait for the whole answer; 0: no limit")
      ->envname("TUTTI_TIMEOUT")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

absl::StatusOr<std::unique_ptr<Client>> MakeClient(const ServiceFlags& flags) {
  return Client::Create(flags.client);
}

CallOptions MakeCallOptions(const ServiceFlags& flags, CancelToken* cancel) {
  CallOptions options{.timeout = std::nullopt, .cancel = cancel};
  if (flags.timeout_s > 0) {
    options.timeout =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.timeout_s));
  }
  return options;
}

void AddAskerFlags(CLI::App* app, AskerFlags* flags) {
  app->add_option("--tenant", flags->tenant,
                  "Who asks: the service shares its time between tenants, and caches apart")
      ->envname("TUTTI_TENANT");
  app->add_option("--priority", flags->priority, "-100 to 100; lower goes first")
      ->envname("TUTTI_PRIORITY")
      ->capture_default_str();
}

void FillAsker(const AskerFlags& flags, v1::GenerateRequest* request) {
  request->set_tenant(flags.tenant);
  request->set_priority(flags.priority);
}

std::string ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  // Our messages hold no Any and no deep nesting, the only things that cannot be printed.
  CHECK(status.ok()) << status.ToString();
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

absl::StatusOr<std::string> ReadText(const std::string& path, int64_t bytes_max) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat("cannot read the file ", path));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(static_cast<size_t>(bytes_max) + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return absl::UnavailableError(absl::StrCat("cannot read the file ", path));
  text.resize(static_cast<size_t>(in.gcount()));
  if (static_cast<int64_t>(text.size()) > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(path == "-" ? "the input" : path, " is larger than ", FormatBytes(bytes_max)));
  }
  return text;
}

const CLI::Validator kIsSize = [] {
  return CLI::Validator(
      [](std::string& text) {
        const auto bytes = ParseBytes(text);
        return bytes.ok() ? std::string() : std::string(bytes.status().message());
      },
      "SIZE");
}();

}  // namespace tutti::client
