// Grammars that have been made and found good, by their digests, so that requests by the same one
// do not make it again. Nothing of it is more than remembered.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::coordinator {

class KnownGrammars {
 public:
  // So many, of which the one that was asked for longest ago goes first. One whose special tokens
  // have long names, or are many (kKnownGrammarBytesMax), is not remembered.
  explicit KnownGrammars(size_t count_max) : count_max_(count_max) {}

  // The special tokens that it asks for; nothing: it is not known.
  std::optional<std::vector<std::string>> Find(const std::string& digest);
  void Add(const std::string& digest, std::vector<std::string> specials);

 private:
  using Known = std::pair<std::string, std::vector<std::string>>;

  const size_t count_max_;
  Mutex mutex_;
  std::list<Known> newest_first_ ABSL_GUARDED_BY(mutex_);
  // The standard's map: others are not whole any more when memory runs out.
  std::unordered_map<std::string, std::list<Known>::iterator> by_digest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::coordinator
