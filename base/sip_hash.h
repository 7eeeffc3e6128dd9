// The keyed hash that names prefixes in the KV directory, and tenants in front of it.
//
// SipHash-2-4 with 128 bits of output: Aumasson, Bernstein, "SipHash: a fast short-input PRF",
// 2012. Without the key no client can make two inputs that collide, nor tell from a name what it
// names.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"

namespace tutti {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const Hash128&) const = default;
};

// The hash of any bytes.
Hash128 HashBytes(const Hash128& key, std::string_view bytes);

// The hash of a block of tokens after everything that `parent` stands for. The same as HashBytes of
// the parent's 16 bytes and the tokens' 4 bytes each, least significant first.
Hash128 HashBlock(const Hash128& key, const Hash128& parent, std::span<const TokenId> tokens);

}  // namespace tutti
