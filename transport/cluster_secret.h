// The secret that the processes of a cluster share where they have no certificates, and the proof
// of knowing it. The secret itself is never sent.
//
// Thread: any; immutable.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::transport {

// The end of a link that proves itself.
enum class LinkEnd : uint8_t { kDialer, kListener };

class ClusterSecret {
 public:
  // A file that only its owner can read, or root's that a group can too where this process is not
  // root; of kSecretBytesMin to kSecretBytesMax bytes. Errors name the file and say how to make
  // one; they never quote it.
  static absl::StatusOr<std::shared_ptr<const ClusterSecret>> Read(const std::string& path);
  // Makes such a file with random bytes. ALREADY_EXISTS, UNAVAILABLE.
  static absl::Status Write(const std::string& path);
  explicit ClusterSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  // HMAC-SHA-256 over the proving end, the listener's name and both nonces. So a proof is good for
  // one link only, cannot be returned to the one who made it, and cannot be carried to a listener
  // of another name.
  std::string Proof(LinkEnd prover, std::string_view listener, std::string_view dialer_nonce,
                    std::string_view listener_nonce) const;

  // A key for another purpose than proofs; from it neither the secret nor another key can be found.
  std::string KeyFor(std::string_view purpose) const;

 private:
  const std::string bytes_;
};

// kNonceBytes from the system's source.
std::string RandomNonce();

// Takes the same time wherever they differ. False for different lengths.
bool EqualProofs(std::string_view a, std::string_view b);

// The way to make a secret, for messages.
inline constexpr char kSecretRemedy[] =
    "make one with: (umask 077; head -c 32 /dev/urandom > FILE), and give all processes of the "
    "cluster the same";

}  // namespace tutti::transport
