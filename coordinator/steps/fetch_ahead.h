// Sequences on their way from memory before they are looked at. With ten thousand of them each is
// in memory only, and fetching them one after the other would be most of the time of a commit.
#pragma once

#include <cstddef>

#include "coordinator/sequence.h"

namespace tutti::coordinator {

// The number of sequences of a result that are fetched before they are looked at: some hundred
// nanoseconds of work.
inline constexpr size_t kFetchAhead = 6;

inline void FetchAhead(const Sequence* sequence) {
  if (sequence == nullptr) return;
  const char* const at = reinterpret_cast<const char*>(sequence);
  for (size_t offset = 0; offset < sizeof(Sequence); offset += 64) {
    __builtin_prefetch(at + offset, 1);
  }
}

// The memory that it points at and a token changes; it has been fetched itself.
inline void FetchContents(const Sequence* sequence) {
  if (sequence == nullptr) return;
  __builtin_prefetch(sequence->tokens.data() + sequence->tokens.size(), 1);
  __builtin_prefetch(sequence->stay.blocks.data() + sequence->stay.blocks.size(), 1);
  __builtin_prefetch(sequence->request.stop_token_ids.data());
}

}  // namespace tutti::coordinator
