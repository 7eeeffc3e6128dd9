#include "gateway/grpc/tenant_mark.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstring>
#include <random>

namespace tutti::gateway {

Hash128 TenantMark(std::string_view tenant) {
  static const std::array<std::random_device::result_type, 8> key = [] {
    std::random_device device;
    std::array<std::random_device::result_type, 8> words;
    for (auto& word : words) word = device();
    return words;
  }();
  Hash128 mark;
  if (tenant.empty()) return mark;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  HMAC(EVP_sha256(), key.data(), sizeof(key), reinterpret_cast<const unsigned char*>(tenant.data()),
       tenant.size(), digest.data(), nullptr);
  std::memcpy(&mark.low, digest.data(), sizeof(mark.low));
  std::memcpy(&mark.high, digest.data() + sizeof(mark.low), sizeof(mark.high));
  return mark;
}

}  // namespace tutti::gateway
