// TLS handshakes that fail, told to the port they came to.
//
// gRPC 1.51 says why a handshake failed in its log alone, and not whose it was. Ports say here
// which connections have begun one, so that a reason can be given a name: if one connection is in
// question it is that one, if several are, nobody is blamed.
//
// Thread: any, for everything.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tutti::transport {

// A port that takes TLS connections, for as long as it lives.
class HandshakePort {
 public:
  // A connection of `peer` ("ipv4:10.0.0.7:4001"; "" if several are in question) failed, and why.
  // Must not block, nor call anything here.
  using OnFailure = std::function<void(const std::string& peer, const std::string& why)>;

  explicit HandshakePort(OnFailure on_failure);  // may be null
  ~HandshakePort();
  HandshakePort(const HandshakePort&) = delete;
  HandshakePort& operator=(const HandshakePort&) = delete;

  // A connection of `peer` is about to begin its handshake; it was done, and all is well.
  void Began(const std::string& peer);
  void Succeeded(const std::string& peer);

 private:
  const OnFailure on_failure_;
};

// A line of gRPC's log: if it tells of a handshake that failed, the port in question hears of it.
void ReadHandshakeLog(std::string_view line);

// The reason in such a line, in words that say what to look at; "" if it is none.
std::string HandshakeFailureIn(std::string_view line);

}  // namespace tutti::transport
