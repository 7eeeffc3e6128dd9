// XXH3-128 from the library's own header, inlined: each of the two sources that include this is
// compiled for other instructions, with the same results. Nothing of C++'s library is included
// here: its inline functions would be compiled for those instructions too, and used elsewhere.
//
// Threads: pure functions.
#pragma once

#define XXH_INLINE_ALL
#include <stddef.h>
#include <xxhash.h>

namespace tutti::model {

// digest   [16], the most significant byte first
static inline void Xxh3(const void* bytes, size_t size, unsigned char* digest) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
  __builtin_memcpy(digest, canonical.digest, sizeof(canonical.digest));
}

// The same, compiled for AVX2 on x86-64.  REQUIRES: the processor has it
void Xxh3WithAvx2(const void* bytes, size_t size, unsigned char* digest);

}  // namespace tutti::model
