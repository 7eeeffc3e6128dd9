#include "coordinator/requests/poison_list.h"

#include <algorithm>
#include <string>

#include "coordinator/limits.h"

namespace tutti::coordinator {

Hash128 PoisonList::PrintOf(const Request& request, std::span<const TokenId> prompt) const {
  v1::SequenceSampling sampling = request.sampling;
  sampling.clear_seed();
  std::string bytes;
  sampling.AppendToString(&bytes);
  return HashBlock(key_, HashBytes(key_, bytes), prompt);
}

void PoisonList::Add(const Request& request, std::span<const TokenId> prompt, Instant now) {
  Poison added{.print = PrintOf(request, prompt), .until = now + kPoisonRefusedTime, .requests = 1};
  const auto same = std::find_if(poisons_.begin(), poisons_.end(),
                                 [&](const Poison& one) { return one.print == added.print; });
  if (same != poisons_.end()) {
    if (same->until > now) added.requests += same->requests;
    poisons_.erase(same);
  }
  if (poisons_.size() == kPoisonsKept) poisons_.pop_front();
  poisons_.push_back(added);
}

std::optional<Duration> PoisonList::RefusedFor(const Request& request,
                                               std::span<const TokenId> prompt, Instant now) const {
  // Times only grow along the list.
  if (poisons_.empty() || poisons_.back().until <= now) return std::nullopt;
  const Hash128 print = PrintOf(request, prompt);
  for (auto poison = poisons_.rbegin(); poison != poisons_.rend(); ++poison) {
    if (poison->until <= now) break;
    if (poison->print != print) continue;
    if (poison->requests >= kSentencesOfLikes) return poison->until - now;
    break;
  }
  return std::nullopt;
}

}  // namespace tutti::coordinator
