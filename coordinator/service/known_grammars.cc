#include "coordinator/service/known_grammars.h"

#include "coordinator/service/limits.h"

namespace tutti::coordinator {

std::optional<std::vector<std::string>> KnownGrammars::Find(const std::string& digest) {
  const MutexLock lock(&mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return std::nullopt;
  newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
  return found->second->second;
}

void KnownGrammars::Add(const std::string& digest, std::vector<std::string> specials) {
  size_t bytes = 0;
  for (const std::string& special : specials) bytes += special.size() + sizeof(std::string);
  if (bytes > kKnownGrammarBytesMax) return;
  const MutexLock lock(&mutex_);
  if (by_digest_.contains(digest)) return;
  newest_first_.emplace_front(digest, std::move(specials));
  by_digest_[digest] = newest_first_.begin();
  if (by_digest_.size() <= count_max_) return;
  by_digest_.erase(newest_first_.back().first);
  newest_first_.pop_back();
}

}  // namespace tutti::coordinator
