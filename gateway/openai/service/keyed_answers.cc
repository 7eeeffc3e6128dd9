#include "gateway/openai/service/keyed_answers.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/openai/service/generation.h"

namespace tutti::gateway {
namespace {

constexpr char kField[] = "Idempotency-Key";

}  // namespace

RequestDigest DigestOf(std::string_view path, std::string_view body) {
  RequestDigest digest{};
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  // With its end: a path has no line end in it.
  EVP_DigestUpdate(context, path.data(), path.size());
  EVP_DigestUpdate(context, "\n", 1);
  EVP_DigestUpdate(context, body.data(), body.size());
  EVP_DigestFinal_ex(context, digest.data(), nullptr);
  EVP_MD_CTX_free(context);
  return digest;
}

std::optional<ApiError> CheckIdempotencyKey(std::string_view key) {
  const bool good =
      key.size() <= kKeyOfRequestBytesMax &&
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (good) return std::nullopt;
  return BadRequest(kField, absl::StrCat(kField, " must be at most ", kKeyOfRequestBytesMax,
                                         " printable characters of ASCII"));
}

std::variant<std::shared_ptr<Generation>, ApiError> KeyedAnswers::Find(
    const std::string& tenant, std::string_view key, const RequestDigest& request) const {
  const auto found = answers_.find({tenant, std::string(key)});
  if (found == answers_.end() || !found->second.answer->may_be_read_again()) {
    return std::shared_ptr<Generation>();
  }
  if (found->second.request == request) return found->second.answer;
  // Not 409: clients would send the same again.
  return BadRequest(kField, absl::StrCat(kField,
                                         " is that of another request, which was sent a "
                                         "short time ago; take a new one for each"));
}

bool KeyedAnswers::has_room() const {
  return answers_.size() < kKeyedAnswersMax && bytes_ < kKeptBytesMax;
}

void KeyedAnswers::Add(const std::string& tenant, std::string_view key,
                       const RequestDigest& request, std::shared_ptr<Generation> answer) {
  answers_[{tenant, std::string(key)}] = {
      .request = request, .answer = std::move(answer), .idle_since = {}};
}

void KeyedAnswers::Tick(Instant now) {
  bytes_ = 0;
  for (auto& [name, entry] : answers_) {
    bytes_ += entry.answer->kept_bytes();
    if (entry.answer->has_reader()) {
      entry.idle_since.reset();
    } else if (!entry.idle_since.has_value()) {
      entry.idle_since = now;
    }
  }
  std::erase_if(answers_, [now](const auto& item) {
    const Entry& entry = item.second;
    if (!entry.answer->may_be_read_again()) return true;
    if (!entry.idle_since.has_value() || now - *entry.idle_since < kKeptTime) return false;
    entry.answer->Abandon();
    return true;
  });
}

}  // namespace tutti::gateway
