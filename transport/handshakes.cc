#include "transport/handshakes.h"

#include <list>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Connections of a process whose handshakes may be in question at one time; of more than these
// nobody could be blamed anyhow.
constexpr size_t kHandshakesKnownMax = 64;

struct Begun {
  HandshakePort* port;
  std::string peer;
  Instant at;
};

// All ports of the process.
struct Ports {
  Mutex mutex;
  const SystemClock clock{};
  std::map<HandshakePort*, HandshakePort::OnFailure> ports ABSL_GUARDED_BY(mutex);
  std::list<Begun> begun ABSL_GUARDED_BY(mutex);  // the oldest first

  void Forget(Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (!begun.empty() &&
           (begun.size() > kHandshakesKnownMax || now - begun.front().at > kHandshakeTimeout)) {
      begun.pop_front();
    }
  }
};

// Never destroyed: gRPC's threads outlive main.
Ports& AllPorts() {
  static auto* const ports = new Ports;
  return *ports;
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

HandshakePort::HandshakePort(OnFailure on_failure) : on_failure_(std::move(on_failure)) {
  Ports& all = AllPorts();
  const MutexLock lock(&all.mutex);
  all.ports[this] = on_failure_;
}

HandshakePort::~HandshakePort() {
  Ports& all = AllPorts();
  const MutexLock lock(&all.mutex);
  all.ports.erase(this);
  all.begun.remove_if([this](const Begun& one) { return one.port == this; });
}

void HandshakePort::Began(const std::string& peer) {
  Ports& all = AllPorts();
  const MutexLock lock(&all.mutex);
  const Instant now = all.clock.Now();
  all.begun.push_back({this, peer, now});
  all.Forget(now);
}

void HandshakePort::Succeeded(const std::string& peer) {
  Ports& all = AllPorts();
  const MutexLock lock(&all.mutex);
  all.begun.remove_if([&](const Begun& one) { return one.port == this && one.peer == peer; });
}

void ReadHandshakeLog(std::string_view line) {
  const std::string why = HandshakeFailureIn(line);
  if (why.empty()) return;
  Ports& all = AllPorts();
  const MutexLock lock(&all.mutex);
  all.Forget(all.clock.Now());
  std::map<HandshakePort*, std::vector<std::string>> in_question;
  for (const Begun& one : all.begun) in_question[one.port].push_back(one.peer);
  for (const auto& [port, peers] : in_question) {
    const HandshakePort::OnFailure& tell = all.ports[port];
    const bool is_known = in_question.size() == 1 && peers.size() == 1;
    if (tell) tell(is_known ? peers.front() : "", why);
    if (is_known) all.begun.clear();
  }
}

std::string HandshakeFailureIn(std::string_view line) {
  // "Handshake failed with fatal error SSL_ERROR_SSL: error:0A000086:SSL routines::certificate
  // verify failed."
  if (!absl::StrContains(View(line), "Handshake failed with fatal error")) return "";
  struct Reason {
    absl::string_view sign;
    absl::string_view text;
  };
  static constexpr Reason kReasons[] = {
      {"certificate verify failed",
       "its certificate was not signed by our authority, or has run out"},
      {"did not return a certificate", "it showed no certificate"},
      {"unknown ca", "it does not trust our certificate: its authority is another one"},
      {"certificate expired", "it found our certificate run out"},
      {"certificate has expired", "its certificate has run out"},
      {"wrong version number", "it does not speak TLS"},
      {"http request", "it does not speak TLS"},
      {"packet length too long", "it does not speak TLS"},
  };
  for (const Reason& reason : kReasons) {
    if (absl::StrContains(View(line), reason.sign)) {
      return absl::StrCat("TLS handshake: ", reason.text);
    }
  }
  const size_t last = line.rfind("::");
  std::string_view rest = last == std::string_view::npos ? line : line.substr(last + 2);
  while (!rest.empty() && rest.back() == '.') rest.remove_suffix(1);
  return absl::StrCat("TLS handshake: ", View(rest.substr(0, kCloseMessageBytesMax)));
}

}  // namespace tutti::transport
