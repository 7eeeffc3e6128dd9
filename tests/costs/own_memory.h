// The memory of a program whose allocations are counted, or run out: it has this operator new.
//
// Thread: one, the only one that allocates meanwhile.
#pragma once

#include <cstdint>

namespace tutti::tests {

class OwnMemory {
 public:
  // Memory is cut from one piece and never given back, until the end of counting: the work of an
  // allocator depends on what was freed long before.
  static void BeginCounting();
  static void EndCounting();
  static int64_t counted();

  // So many more allocations succeed; the ones after them throw bad_alloc.
  static void Allow(int64_t allocations);
};

}  // namespace tutti::tests
