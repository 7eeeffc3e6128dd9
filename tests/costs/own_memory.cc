#include "tests/costs/own_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tutti::tests {
namespace {

// Its address space alone is taken at once.
constexpr size_t kPieceBytes = size_t{4} << 30;
bool g_counting = false;
int64_t g_allocations = 0;
int64_t g_allowed = INT64_MAX;
char* g_piece = nullptr;
size_t g_cut = 0;

void* Allocate(size_t size) {
  if (g_allowed <= 0) throw std::bad_alloc();
  --g_allowed;
  if (!g_counting) {
    void* const memory = std::malloc(size == 0 ? 1 : size);
    return memory == nullptr ? (std::abort(), nullptr) : memory;
  }
  ++g_allocations;
  void* const memory = g_piece + g_cut;
  g_cut += (size + 15) / 16 * 16;
  if (g_cut > kPieceBytes) std::abort();
  return memory;
}

void Free(void* memory) {
  const bool is_cut = memory >= g_piece && memory < g_piece + kPieceBytes;
  if (!g_counting && !is_cut) std::free(memory);
}

}  // namespace

void OwnMemory::BeginCounting() {
  g_piece = static_cast<char*>(mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (g_piece == MAP_FAILED) std::abort();
  g_counting = true;
}

void OwnMemory::EndCounting() { g_counting = false; }

int64_t OwnMemory::counted() { return g_allocations; }

void OwnMemory::Allow(int64_t allocations) { g_allowed = allocations; }

}  // namespace tutti::tests

void* operator new(size_t size) { return tutti::tests::Allocate(size); }
void* operator new[](size_t size) { return tutti::tests::Allocate(size); }
void operator delete(void* memory) noexcept { tutti::tests::Free(memory); }
void operator delete[](void* memory) noexcept { tutti::tests::Free(memory); }
void operator delete(void* memory, size_t) noexcept { tutti::tests::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { tutti::tests::Free(memory); }
