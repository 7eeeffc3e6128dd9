// The place of a service, and how a client talks to it.
#pragma once

#include <string>

#include "base/clock.h"
#include "client/limits.h"

namespace tutti::client {

struct ClientOptions {
  // host:port, or unix:/path; or several, with commas between them, of coordinators of one
  // cluster: calls go to the first that can be reached.
  std::string address = "127.0.0.1:50051";
  // An answer that breaks off goes on by itself (resuming_answer.h) until nothing of it has come
  // for so long, and a service that asks us to come again is asked as long; zero: neither. Calls
  // that are started wait as long for a service that served this client within that time.
  Duration resume_within = kResumeWithin;
  // An answer also goes on where what is computed again may differ from what came
  // (GetModelResponse.exact); else it ends with FAILED_PRECONDITION there.
  bool allow_inexact = false;
  // The address of the operator's port, for GetStatus and LookupPrefix; empty: the socket of the
  // service at `address`, where that is on this machine (transport/private_folder.h).
  std::string admin;
  // PEM files. With an authority the connection is encrypted and the service must carry a
  // certificate of its; with certificate and key we prove who we are as well.
  std::string tls_authority;
  std::string tls_certificate;
  std::string tls_key;
  // Told with every call to the public port, as "authorization: Bearer KEY", for gateways that ask
  // for keys; empty: none. Without TLS only to this machine, unless it may be told in the clear.
  std::string api_key;
  bool api_key_in_clear = false;
};

}  // namespace tutti::client
