#include "client/command.h"

#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/retry_delay.h"
#include "client/endpoints.h"
#include "client/flag_words.h"
#include "client/format.h"

namespace tutti::client {

namespace {

// The words in which a service refuses a caller that has no role for a call.
constexpr absl::string_view kOtherCallers = "this caller has no role";

}  // namespace

int Fail(const absl::Status& status) {
  std::string message = InWordsOfFlags(OneLine(status.message()));
  // gRPC's words for a deadline of our own.
  if (message == "Deadline Exceeded") {
    message = "--timeout passed before the answer was whole; give it more seconds, or 0: no limit";
  }
  if (absl::IsPermissionDenied(status) && absl::StartsWith(message, kOtherCallers)) {
    absl::StrAppend(&message, "; --address is where clients ask, --admin where operators do");
  }
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

namespace {

// The key of the flag's file, or of the environment, where it is not seen in lists of processes.
absl::StatusOr<std::string> FindApiKey(const ServiceFlags& flags) {
  if (flags.api_key_file.empty()) {
    const char* const key = std::getenv("TUTTI_API_KEY");
    return std::string(key == nullptr ? "" : key);
  }
  // A line: blanks are no part of a key.
  TUTTI_ASSIGN_OR_RETURN(const std::string text,
                         ReadText(flags.api_key_file, 2 * static_cast<int64_t>(kApiKeyBytesMax)));
  std::string key(absl::StripAsciiWhitespace(text));
  if (key.empty()) return absl::InvalidArgumentError("--api-key-file: it holds no key");
  return key;
}

absl::Status CheckTlsFlags(const ClientOptions& options) {
  const bool has_one = !options.tls_certificate.empty() || !options.tls_key.empty();
  for (const auto& [file, name] :
       {std::pair(&options.tls_certificate, "--tls-cert"), std::pair(&options.tls_key, "--tls-key"),
        std::pair(&options.tls_authority, "--tls-ca")}) {
    if (has_one && file->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--tls-cert, --tls-key and --tls-ca belong together; ", name, " is missing"));
    }
  }
  return absl::OkStatus();
}

void AddConnectionFlags(FlagSet* set, ServiceFlags* flags) {
  set->Add({{.names = "-a,--address,--server",
             .variable = &flags->client.address,
             .help = "Address of the service: host:port or unix:/path; several coordinators of one "
                     "cluster with commas between them",
             .check = IsAddresses(),
             .show_default = true}});
  set->Add(
      {{.names = "--certs",
        .variable = &flags->certificate_folder,
        .help = "Folder with ca.crt, tls.crt and tls.key, as `tutti certs issue` makes it: the "
                "three of the next that are not given"},
       {.names = "--tls-ca",
        .variable = &flags->client.tls_authority,
        .help = "PEM authority that signed the service's certificate; turns TLS on"},
       {.names = "--tls-cert",
        .variable = &flags->client.tls_certificate,
        .help = "PEM certificate of this client, for a service that requires one"},
       {.names = "--tls-key",
        .variable = &flags->client.tls_key,
        .help = "PEM key of that certificate"}},
      "TLS");
  set->Add({{.names = "--timeout",
             .variable = &flags->timeout_s,
             .help = "Seconds to wait for the whole answer; 0: no limit",
             .check = NumberIn(0, 1e6),
             .show_default = true}});
}

}  // namespace

void AddServiceFlags(FlagSet* set, ServiceFlags* flags) {
  flags->has_key = true;
  AddConnectionFlags(set, flags);
  set->Add({{.names = "--api-key-file",
             .variable = &flags->api_key_file,
             .help = "File with the key that a gateway asks for; unset: TUTTI_API_KEY, or none"},
            {.names = "--api-key-in-clear",
             .variable = &flags->client.api_key_in_clear,
             .help = "Tell the key without TLS to other machines, too"}},
           "Key");
}

void AddGenerateServiceFlags(FlagSet* set, ServiceFlags* flags) {
  AddServiceFlags(set, flags);
  set->Add(
      {{.names = "--resume-within",
        .variable = &flags->resume_within_s,
        .help =
            "Seconds to try to go on with an answer that broke off, or to ask a service again that "
            "shuts down; 0: do not try",
        .check = NumberIn(0, 1e6),
        .show_default = true},
       {.names = "--allow-inexact",
        .variable = &flags->client.allow_inexact,
        .help = "Go on with it also where the numerics class is not exact: its rest may differ"}});
}

void AddOperatorFlags(FlagSet* set, ServiceFlags* flags) {
  set->Add({{.names = "--admin",
             .variable = &flags->client.admin,
             .help = "Address of the operator's port: unix:/path or host:port; unset: found by "
                     "--address on this machine",
             .check = IsAddress()}});
  AddConnectionFlags(set, flags);
}

absl::StatusOr<std::unique_ptr<Client>> MakeClient(const ServiceFlags& flags) {
  ClientOptions options = flags.client;
  TUTTI_RETURN_IF_ERROR(Annotate(FillFromFolder(flags.certificate_folder, &options), "--certs"));
  TUTTI_RETURN_IF_ERROR(CheckTlsFlags(options));
  if (flags.has_key) {
    TUTTI_ASSIGN_OR_RETURN(options.api_key, FindApiKey(flags));
  }
  options.resume_within =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.resume_within_s));
  auto client = Client::Create(options);
  // A file of a flag's: an input that cannot be right.
  if (absl::IsNotFound(client.status())) {
    return absl::InvalidArgumentError(client.status().message());
  }
  return client;
}

CallOptions MakeCallOptions(const ServiceFlags& flags, CancelToken* cancel) {
  CallOptions options{.timeout = std::nullopt, .cancel = cancel};
  if (flags.timeout_s > 0) {
    options.timeout =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.timeout_s));
  }
  return options;
}

void AddAskerFlags(FlagSet* set, AskerFlags* flags) {
  set->Add(
      {{.names = "--tenant",
        .variable = &flags->tenant,
        .help =
            "Tenant of the request: the service divides its time and its cache between tenants"},
       {.names = "--priority",
        .variable = &flags->priority,
        .help = "-100 to 100; lower goes first",
        .show_default = true}});
}

void AddTextReadingFlags(FlagSet* set, TextReadingFlags* flags) {
  set->Add({
      {.names = "--split-special-tokens",
       .variable = &flags->split_special_tokens,
       .help = "Special tokens that the text spells (\"<|im_end|>\") stay text"},
      {.names = "--omit-special-tokens",
       .variable = &flags->omit_special_tokens,
       .help = "Put no token before the text, where the model has one for that (\"<s>\")"},
  });
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
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is a folder; give a file"));
    }
    if (!file) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read the file ", path, ": ", std::strerror(errno)));
    }
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(static_cast<size_t>(bytes_max) + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return absl::UnavailableError(absl::StrCat("cannot read the file ", path));
  text.resize(static_cast<size_t>(in.gcount()));
  if (static_cast<int64_t>(text.size()) > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(path == "-" ? "the input" : path,
                                                   " is larger than ", FormatBytes(bytes_max),
                                                   "; give less of it"));
  }
  return text;
}

}  // namespace tutti::client
