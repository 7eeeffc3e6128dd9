#include "transport/cluster_secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "transport/descriptor.h"
#include "transport/keyed_hash.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// A part with its length before it, so that no two lists of parts are the same text.
void Append(std::string_view part, std::string* text) {
  text->push_back(static_cast<char>(part.size() >> 8));
  text->push_back(static_cast<char>(part.size()));
  text->append(part);
}

absl::Status CheckMode(const std::string& path, const struct stat& found) {
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("the secret file ", path, " is no file"));
  }
  // Kubernetes mounts secrets so for processes that are not root: root's, readable for their group.
  const bool mounted = found.st_uid == 0 && geteuid() != 0;
  if ((found.st_mode & (mounted ? 037 : 077)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("the secret file %s can be read by others (mode %04o); chmod 0600 it", path,
                      static_cast<unsigned>(found.st_mode & 07777)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ClusterSecret>> ClusterSecret::Read(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (file.get() < 0 || fstat(file.get(), &found) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read the secret file ", path, ": ",
                                            std::strerror(errno), "; ", kSecretRemedy));
  }
  TUTTI_RETURN_IF_ERROR(CheckMode(path, found));
  std::string bytes(static_cast<size_t>(kSecretBytesMax) + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read the secret file ", path, ": ", std::strerror(errno)));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (static_cast<int64_t>(size) < kSecretBytesMin ||
      static_cast<int64_t>(size) > kSecretBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the secret file ", path, " has ",
        static_cast<int64_t>(size) > kSecretBytesMax ? "more bytes than allowed"
                                                     : absl::StrCat(size, " bytes"),
        ", it must have ", kSecretBytesMin, " to ", kSecretBytesMax, "; ", kSecretRemedy));
  }
  bytes.resize(size);
  return std::make_shared<const ClusterSecret>(std::move(bytes));
}

absl::Status ClusterSecret::Write(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    const auto code =
        errno == EEXIST ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kUnavailable;
    return absl::Status(
        code, absl::StrCat("cannot make the secret file ", path, ": ", std::strerror(errno)));
  }
  const std::string bytes = RandomNonce();
  if (write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError(absl::StrCat("cannot write the secret file ", path));
  }
  return absl::OkStatus();
}

std::string ClusterSecret::Proof(LinkEnd prover, std::string_view listener,
                                 std::string_view dialer_nonce,
                                 std::string_view listener_nonce) const {
  std::string text = "tutti identify 1";
  Append(prover == LinkEnd::kDialer ? "dialer" : "listener", &text);
  Append(listener, &text);
  Append(dialer_nonce, &text);
  Append(listener_nonce, &text);
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int size = 0;
  const auto* const made =
      HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
  CHECK(made != nullptr && size == kProofBytes) << "libcrypto has no HMAC-SHA-256";
  return std::string(reinterpret_cast<const char*>(mac.data()), size);
}

std::string ClusterSecret::KeyFor(std::string_view purpose) const {
  KeyedHash hash(bytes_);
  hash.Add("tutti key 1 ");
  hash.Add(purpose);
  return hash.Finish();
}

std::string RandomNonce() {
  std::string nonce(static_cast<size_t>(kNonceBytes), '\0');
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()),
                   static_cast<int>(nonce.size())) == 1)
      << "the system has no random bytes";
  return nonce;
}

bool EqualProofs(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::transport
