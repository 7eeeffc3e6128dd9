// tutti certs: a cluster's own authority, and a folder of TLS files for each of its processes.
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/certificate_maker.h"
#include "client/command.h"
#include "client/print.h"
#include "transport/certificate_folder.h"

namespace tutti::client {
namespace {

constexpr const char* kCertsExamples = R"(
Examples:
  tutti certs init certs                                      # once; keep certs/ca.key to yourself
  tutti certs issue node0 --role coordinator --role worker    # certs/node0, for that machine alone
  tutti certs issue node1 --host 10.0.0.7
  tutti certs issue alice --role client --role operator
  tutti certs issue tutti --role coordinator --host tutti-0.tutti-pods --kubernetes tutti-tls \
      | kubectl apply -f -

  tutti-coordinator --model DIR --certs certs/node0           # on node0, with a copy of that folder
  tutti-worker --model DIR --coordinator node0 --certs certs/node1                       # on node1
  tutti chat --address node0:50051 --certs certs/alice

Exit codes: 0 done, 1 failed (also when it would write over something), 2 bad input.)";

struct CertsFlags {
  std::string folder = "certs";
  int32_t authority_days = 3650;
  std::string authority = "certs";
  std::vector<std::string> roles;
  std::string secret;
  CertificateRequest request;
};

int Report(const absl::Status& status) { return status.ok() ? kExitOk : Fail(status); }

int RunInit(const CertsFlags& flags) {
  const absl::Status made = InitAuthority(flags.folder, flags.authority_days);
  if (!made.ok()) return Fail(made);
  return Report(PrintLine(absl::StrCat("made ", flags.folder, "; who has ", flags.folder, "/",
                                       transport::kAuthorityKeyFile, " can pose as anybody")));
}

// The manifest of a Secret with the files of a folder, as kubectl takes it.
absl::StatusOr<std::string> SecretManifest(const std::string& folder, const std::string& name) {
  nlohmann::ordered_json files;
  for (const char* file :
       {transport::kCertificateFile, transport::kKeyFile, transport::kAuthorityFile}) {
    std::ifstream stream(absl::StrCat(folder, "/", file), std::ios::binary);
    files[file] = std::string(std::istreambuf_iterator<char>(stream), {});
    if (!stream) return absl::UnavailableError(absl::StrCat(folder, "/", file, ": cannot be read"));
  }
  const nlohmann::ordered_json secret = {{"apiVersion", "v1"},
                                         {"kind", "Secret"},
                                         {"metadata", {{"name", name}}},
                                         {"type", "kubernetes.io/tls"},
                                         {"stringData", std::move(files)}};
  return secret.dump(2);
}

int RunIssue(CertsFlags flags) {
  for (const std::string& text : flags.roles) {
    for (const transport::Role role : transport::kAllRoles) {
      if (transport::RoleName(role) == text) flags.request.roles.push_back(role);
    }
  }
  if (flags.request.roles.empty()) flags.request.roles = {transport::Role::kWorker};
  const auto folder = IssueCertificate(flags.authority, flags.request);
  // Its folder was given: an input that cannot be right.
  if (absl::IsNotFound(folder.status())) {
    return Fail(absl::InvalidArgumentError(folder.status().message()));
  }
  if (!folder.ok()) return Fail(folder.status());
  if (!flags.secret.empty()) {
    const auto secret = SecretManifest(*folder, flags.secret);
    return secret.ok() ? Report(PrintLine(*secret)) : Fail(secret.status());
  }
  const auto about = DescribeCertificate(absl::StrCat(*folder, "/", transport::kCertificateFile));
  if (!about.ok()) return Fail(about.status());
  return Report(PrintLine(absl::StrCat("made ", *folder, ": ", *about)));
}

FlagSet* AddInit(FlagSet* certs, CertsFlags* flags) {
  FlagSet* const set = certs->AddCommand("init", "Make an authority");
  set->Add({
      {.names = "folder",
       .variable = &flags->folder,
       .help = "Where; there must be nothing yet",
       .show_default = true},
      {.names = "--days",
       .variable = &flags->authority_days,
       .help = "How long it is good for",
       .check = IntegerIn(1, kCertificateDaysMax),
       .show_default = true},
  });
  return set;
}

FlagSet* AddIssue(FlagSet* certs, CertsFlags* flags) {
  FlagSet* const set = certs->AddCommand("issue", "Make the files of one process");
  set->Add({
      {.names = "name",
       .variable = &flags->request.name,
       .help = "Its name: of a worker its id, of others what they are called in logs; also a host "
               "name under which it is dialled",
       .required = true},
      {.names = "--role",
       .variable = &flags->roles,
       .help = "worker (when nothing is given), client, gateway, operator or coordinator; may be "
               "repeated",
       .check = OneOf("client,gateway,worker,coordinator,operator"),
       .list = FlagList::kRepeated},
      {.names = "--host",
       .variable = &flags->request.hosts,
       .help = "Another host name, also *.workers.svc, or IP address under which it is dialled; "
               "may be repeated",
       .list = FlagList::kRepeated},
      {.names = "--kubernetes",
       .variable = &flags->secret,
       .help = "Print a Secret of this name with its files, for kubectl apply -f -"},
      {.names = "--authority",
       .variable = &flags->authority,
       .help = "The folder of the authority",
       .show_default = true},
      {.names = "--days",
       .variable = &flags->request.days,
       .help = "How long it is good for",
       .check = IntegerIn(1, kCertificateDaysMax),
       .show_default = true},
  });
  return set;
}

}  // namespace

Command MakeCertsCommand(FlagSet* program) {
  FlagSet* const set = program->AddCommand("certs", "Make certificates for a cluster's processes");
  auto flags = std::make_shared<CertsFlags>();
  const FlagSet* const init = AddInit(set, flags.get());
  AddIssue(set, flags.get());
  set->AddFooter(kCertsExamples);
  return {set, [flags, init] { return init->chosen() ? RunInit(*flags) : RunIssue(*flags); }};
}

}  // namespace tutti::client
