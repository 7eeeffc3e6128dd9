#include "transport/credit_book.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Undoes %5B and the like.
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    uint8_t byte = 0;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(&text[at] + 1, &text[at] + 3, byte, 16).ptr == &text[at] + 3) {
      plain += static_cast<char>(byte);
      at += 2;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace

Duration Pauses::Add(Instant now, Duration pause) {
  const MutexLock lock(&mutex_);
  until_ = std::min<Instant>(std::max<Instant>(until_, now - kPausesForgiven) + pause,
                             now + kPausesMax);
  return std::max(until_ - now, Duration::zero());
}

std::string PeerNameOf(const SocketAddress& other_end) {
  char text[INET6_ADDRSTRLEN] = "";
  if (other_end.get()->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&other_end.bytes);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4->sin_port));
  }
  if (other_end.get()->sa_family != AF_INET6) return "unix:";
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&other_end.bytes);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6->sin6_port));
  }
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  const std::string scope = v6->sin6_scope_id == 0 ? "" : absl::StrCat("%", v6->sin6_scope_id);
  return absl::StrCat("ipv6:[", text, scope, "]:", ntohs(v6->sin6_port));
}

std::shared_ptr<ConnectionCredit> CreditBook::Open(const std::string& name,
                                                   const std::string& account) {
  const MutexLock lock(&mutex_);
  std::shared_ptr<Pauses>& pauses = pauses_[account];
  if (pauses == nullptr) pauses = std::make_shared<Pauses>();
  auto credit = std::make_shared<ConnectionCredit>(pauses);
  credits_[name] = credit;
  if (pauses_.size() > credits_.size() + kPausesKept) {
    std::erase_if(pauses_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  return credit;
}

std::shared_ptr<ConnectionCredit> CreditBook::Find(std::string_view peer) const {
  const std::string name = Unescape(peer);
  {
    const MutexLock lock(&mutex_);
    if (const auto found = credits_.find(name); found != credits_.end()) return found->second;
  }
  if (name.starts_with("unix:")) return std::make_shared<ConnectionCredit>(pauses_of_unix_);
  return std::make_shared<ConnectionCredit>();
}

void CreditBook::Close(const std::string& name, const std::shared_ptr<ConnectionCredit>& credit) {
  const MutexLock lock(&mutex_);
  const auto found = credits_.find(name);
  if (found != credits_.end() && found->second == credit) credits_.erase(found);
}

size_t CreditBook::accounts() const {
  const MutexLock lock(&mutex_);
  return pauses_.size();
}

}  // namespace tutti::transport
