#include "transport/keyed_hash.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/check.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Found once; libcrypto frees it with itself.
EVP_MAC* Hmac() {
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  CHECK(hmac != nullptr) << "libcrypto has no HMAC";
  return hmac;
}

}  // namespace

struct KeyedHash::State {
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(Hmac());

  State() = default;
  ~State() { EVP_MAC_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

KeyedHash::KeyedHash(std::string_view key) : state_(std::make_unique<State>()) {
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_END};
  CHECK(state_->context != nullptr);
  CHECK(EVP_MAC_init(state_->context, reinterpret_cast<const unsigned char*>(key.data()),
                     key.size(), params) == 1)
      << "libcrypto has no HMAC-SHA-256";
}

KeyedHash::~KeyedHash() = default;

void KeyedHash::Add(std::string_view piece) {
  CHECK(EVP_MAC_update(state_->context, reinterpret_cast<const unsigned char*>(piece.data()),
                       piece.size()) == 1);
}

std::string KeyedHash::Finish() {
  std::string hash(static_cast<size_t>(kProofBytes), '\0');
  size_t size = 0;
  CHECK(EVP_MAC_final(state_->context, reinterpret_cast<unsigned char*>(hash.data()), &size,
                      hash.size()) == 1 &&
        size == hash.size());
  return hash;
}

}  // namespace tutti::transport
