#include "gateway/openai/service/keyed_answers.h"

#include <openssl/evp.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/service/generation.h"

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
    const std::string& owner, std::string_view key, const RequestDigest& request) const {
  const auto found = answers_.find({owner, std::string(key)});
  if (found == answers_.end() || !found->second.answer->may_be_read_again()) {
    return std::shared_ptr<Generation>();
  }
  if (found->second.request == request) return found->second.answer;
  // Not 409: clients would send the same again.
  return BadRequest(kField, absl::StrCat(kField,
                                         " is that of another request, which was sent a "
                                         "short time ago; take a new one for each"));
}

std::optional<door::ByteBudget::Charge> KeyedAnswers::TakePlace(const std::string& owner) {
  auto place = places_.Take(owner, 1);
  if (!place) ++not_kept_;
  return place;
}

void KeyedAnswers::Add(const std::string& owner, std::string_view key, const RequestDigest& request,
                       std::shared_ptr<Generation> answer, door::ByteBudget::Charge place) {
  answers_.insert_or_assign({owner, std::string(key)}, Entry{.place = std::move(place),
                                                             .bytes = {},
                                                             .request = request,
                                                             .answer = std::move(answer),
                                                             .idle_since = {}});
}

bool KeyedAnswers::LookAt(const std::string& owner, Entry* entry, Instant now) {
  Generation& answer = *entry->answer;
  if (!answer.may_be_read_again()) {
    not_kept_ += answer.outgrew() ? 1 : 0;
    return false;
  }
  const auto bytes = static_cast<int64_t>(answer.kept_bytes());
  if (bytes > entry->bytes.bytes()) {
    const bool first = entry->bytes.bytes() == 0;
    auto made = first ? bytes_.Take(owner, bytes) : std::nullopt;
    if (made) entry->bytes = *std::move(made);
    if (entry->bytes.bytes() < bytes && (first || !entry->bytes.Resize(bytes))) {
      ++not_kept_;
      answer.StopKeeping();
      return false;
    }
  }
  if (answer.has_reader()) {
    entry->idle_since.reset();
  } else if (!entry->idle_since.has_value()) {
    entry->idle_since = now;
  }
  if (!entry->idle_since.has_value() || now - *entry->idle_since < kKeptTime) return true;
  answer.StopKeeping();
  return false;
}

void KeyedAnswers::Tick(Instant now) {
  for (auto it = answers_.begin(); it != answers_.end();) {
    it = LookAt(it->first.first, &it->second, now) ? std::next(it) : answers_.erase(it);
  }
}

}  // namespace tutti::gateway
