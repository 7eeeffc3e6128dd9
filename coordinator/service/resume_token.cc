#include "coordinator/service/resume_token.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "coordinator/limits.h"
#include "transport/cluster_secret.h"
#include "transport/keyed_hash.h"

namespace tutti::coordinator {
namespace {

constexpr char kVersion = 1;
constexpr size_t kMacBytes = 16;
// Version, four numbers, four hashes; the name of the class follows.
constexpr size_t kFixedBytes = 1 + 8 + 8 + 4 + 4 * 16;

void AppendNumber(uint64_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

void AppendHash(const Hash128& hash, std::string* out) {
  AppendNumber(hash.low, 8, out);
  AppendNumber(hash.high, 8, out);
}

// Takes numbers from the front.  REQUIRES: so many bytes are there
uint64_t TakeNumber(int bytes, std::string_view* in) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; ++i) {
    number |= uint64_t{static_cast<unsigned char>((*in)[static_cast<size_t>(i)])} << (8 * i);
  }
  in->remove_prefix(static_cast<size_t>(bytes));
  return number;
}

Hash128 TakeHash(std::string_view* in) {
  Hash128 hash;
  hash.low = TakeNumber(8, in);
  hash.high = TakeNumber(8, in);
  return hash;
}

Hash128 HashOf(transport::KeyedHash* hash) {
  const std::string bytes = hash->Finish();
  std::string_view rest = bytes;
  return TakeHash(&rest);
}

// Hashes what a message writes, in pieces: a prompt is not copied once more.
class HashingStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit HashingStream(transport::KeyedHash* hash) : hash_(hash) {}
  bool Write(const void* buffer, int size) override {
    hash_->Add({static_cast<const char*>(buffer), static_cast<size_t>(size)});
    return true;
  }

 private:
  transport::KeyedHash* const hash_;
};

// Maps in the order of their keys, so that equal messages have equal bytes.
void AddMessage(const google::protobuf::MessageLite& message, transport::KeyedHash* hash) {
  HashingStream stream(hash);
  google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
  {
    google::protobuf::io::CodedOutputStream out(&adaptor);
    out.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&out);
  }
  adaptor.Flush();
}

void AddIds(std::span<const TokenId> ids, transport::KeyedHash* hash) {
  std::string count;
  AppendNumber(ids.size(), 8, &count);
  hash->Add(count);
  hash->Add({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
}

absl::Status Foreign() {
  return absl::InvalidArgumentError(
      "resume.token was not given by this service, or has been changed (coordinators take each "
      "other's where they have the same secret of the cluster)");
}

absl::Status Differs(std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("resume.token was given for another ",
                                                    absl::string_view(what.data(), what.size())));
}

}  // namespace

ResumeTokens::ResumeTokens(std::string key, WallClock now)
    : key_(std::move(key)), now_(std::move(now)) {}

ResumeTokens::ResumeTokens(std::string key) : ResumeTokens(std::move(key), WallSeconds) {}

std::string ResumeTokens::Mac(std::string_view claims) const {
  transport::KeyedHash hash(key_);
  hash.Add("token");
  hash.Add(claims);
  return hash.Finish().substr(0, kMacBytes);
}

std::string ResumeTokens::Issue(const ResumeClaims& claims) const {
  if (static_cast<int64_t>(claims.numerics.size()) > kNumericsClassBytesMax) return "";
  std::string token(1, kVersion);
  token.reserve(kFixedBytes + claims.numerics.size() + kMacBytes);
  AppendNumber(static_cast<uint64_t>(now_()), 8, &token);
  AppendNumber(claims.seed, 8, &token);
  AppendNumber(static_cast<uint32_t>(claims.max_tokens), 4, &token);
  for (const Hash128& hash : {claims.body, claims.meaning, claims.tenant, claims.model}) {
    AppendHash(hash, &token);
  }
  token.append(claims.numerics);
  token.append(Mac(token));
  return token;
}

absl::StatusOr<ResumeClaims> ResumeTokens::Open(std::string_view token) const {
  constexpr size_t kBytesMin = kFixedBytes + kMacBytes;
  if (token.size() < kBytesMin || token.size() > kBytesMin + kNumericsClassBytesMax) {
    return Foreign();
  }
  std::string_view rest = token.substr(0, token.size() - kMacBytes);
  if (!transport::EqualProofs(Mac(rest), token.substr(rest.size()))) return Foreign();
  // Ours; of another version of the program, it may still mean something else.
  if (TakeNumber(1, &rest) != kVersion) return Foreign();
  ResumeClaims claims;
  claims.issued_s = static_cast<int64_t>(TakeNumber(8, &rest));
  claims.seed = TakeNumber(8, &rest);
  claims.max_tokens = static_cast<int32_t>(TakeNumber(4, &rest));
  for (Hash128* hash : {&claims.body, &claims.meaning, &claims.tenant, &claims.model}) {
    *hash = TakeHash(&rest);
  }
  claims.numerics = std::string(rest);
  if (now_() - claims.issued_s > kResumeTokenLifeSeconds) {
    return absl::FailedPreconditionError(
        absl::StrCat("resume.token has expired: it was given ", now_() - claims.issued_s,
                     " s ago and is good for ", kResumeTokenLifeSeconds, " s"));
  }
  return claims;
}

Hash128 ResumeTokens::HashBody(v1::GenerateRequest* message) const {
  v1::GenerateRequest aside;
  aside.mutable_request_id()->swap(*message->mutable_request_id());
  aside.mutable_tenant()->swap(*message->mutable_tenant());
  const std::unique_ptr<v1::Resume> resume(message->release_resume());
  // An answer is the same with guesses and without.
  const std::unique_ptr<v1::Speculation> speculation(message->release_speculation());
  transport::KeyedHash hash(key_);
  hash.Add("body");
  AddMessage(*message, &hash);
  aside.mutable_request_id()->swap(*message->mutable_request_id());
  aside.mutable_tenant()->swap(*message->mutable_tenant());
  if (resume != nullptr) *message->mutable_resume() = std::move(*resume);
  if (speculation != nullptr) *message->mutable_speculation() = std::move(*speculation);
  return HashOf(&hash);
}

Hash128 ResumeTokens::HashMeaning(const Request& request) const {
  transport::KeyedHash hash(key_);
  hash.Add("meaning");
  AddIds(request.prompt, &hash);
  AddIds(request.stop_token_ids, &hash);
  v1::SequenceSampling sampling = request.sampling;
  sampling.clear_seed();
  AddMessage(sampling, &hash);
  return HashOf(&hash);
}

Hash128 ResumeTokens::HashTenant(std::string_view tenant) const {
  transport::KeyedHash hash(key_);
  hash.Add("tenant");
  hash.Add(tenant);
  return HashOf(&hash);
}

Hash128 ResumeTokens::HashModel(std::string_view fingerprint) const {
  transport::KeyedHash hash(key_);
  hash.Add("model");
  hash.Add(fingerprint);
  return HashOf(&hash);
}

absl::Status CheckSameRequest(const ResumeClaims& claims, const ResumeClaims& now) {
  if (claims.tenant != now.tenant) return Differs("tenant");
  if (claims.model != now.model) return Differs("checkpoint than the one that is served here");
  if (claims.body != now.body)
    return Differs("request: its other fields must be those of the first");
  return absl::OkStatus();
}

absl::Status CheckSameMeaning(const ResumeClaims& claims, const Hash128& now) {
  if (claims.meaning == now) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "resume: the request means other tokens now than when it was begun (a chat template that "
      "tells the time, or other files of the tokenizer or of generation_config.json)");
}

}  // namespace tutti::coordinator
