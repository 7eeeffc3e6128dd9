// A cluster's own authority: a folder with its key, and in it a folder of TLS files for each
// process that it has signed for (transport/certificate_folder.h).
//
// Thread: any; two calls for one folder are the caller's to keep apart.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/roles.h"

namespace tutti::client {

// Makes the folder, mode 0700, with ca.crt and ca.key. Its parent must exist. ALREADY_EXISTS when
// there is an authority, or anything else by that name: nothing is ever written over.
absl::Status InitAuthority(const std::string& folder, int days);

struct CertificateRequest {
  std::string name;  // [A-Za-z0-9._-]{1,128}: of its folder, and in its identities
  std::vector<transport::Role> roles;
  // Host names, also *.workers.svc, and IP addresses under which it is dialled, beside `name`.
  std::vector<std::string> hosts;
  int days = 365;
};

// Signs for one process and makes AUTHORITY/NAME, mode 0700, with ca.crt, tls.crt and tls.key: all
// three, or nothing. Returns that folder. INVALID_ARGUMENT: a name, host or time that cannot be in
// a certificate. NOT_FOUND: no authority there. ALREADY_EXISTS: that name has a folder.
absl::StatusOr<std::string> IssueCertificate(const std::string& authority,
                                             const CertificateRequest& request);

// A certificate in words, as `tutti certs issue` prints it: names, roles and the last day.
absl::StatusOr<std::string> DescribeCertificate(const std::string& path);

}  // namespace tutti::client
