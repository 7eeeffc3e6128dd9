#include "kernels/cuda/emulated/gpu_emulated.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/emulated/async_proxy.h"
#include "kernels/cuda/emulated/device_arena.h"
#include "kernels/cuda/emulated/machine.h"
#include "kernels/cuda/emulated/schedule.h"
#include "kernels/cuda/hopper_operands.h"

// Saves the registers a function must keep on the current stack, *save = stack pointer, and goes on
// where `load` was saved.
extern "C" void tutti_switch_stack(void** save, void* load);
asm(R"(
.text
.type tutti_switch_stack,@function
tutti_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tutti_switch_stack, .-tutti_switch_stack
)");

namespace tutti::kernels::cuda::emulated {
namespace {

// A fiber's stack: pages are touched only as deep as a kernel goes.
constexpr size_t kStackBytes = 64 << 10;
constexpr int kThreadsMax = 1024;
// Asynchronous operations happen after every 1, 4, 16, 64 or 256 turns of a warp, on average,
// another in each block: in some all are early, in some none happens before it is waited for.
constexpr uint64_t kPaces = 5;

struct Copy {
  void* to;
  const void* from;
  bool valid;
};

struct Barrier {
  int arrived = 0;
  int64_t generation = 0;
};

struct Fiber {
  void* stack_pointer = nullptr;
  bool done = false;
  bool waited = false;  // for the kernels before this one
  int exchanges = 0;
  bool fenced = false;                    // see machine.h
  std::vector<Copy> open;                 // not yet committed
  std::vector<std::vector<Copy>> groups;  // committed, oldest first
};

struct Warp {
  Barrier barrier;
  Words words[2][kWarp];
};

// One block at a time.
struct Machine {
  Position here;
  int running = 0;
  bool progress = false;
  const std::function<void()>* body = nullptr;
  void* scheduler = nullptr;  // its stack pointer
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier block;
  std::vector<Barrier> warpgroups;
  bool early = false;     // the kernel may begin before others have ended
  bool dawdles = false;   // somebody comes late, and will go on
  bool withheld = false;  // from the block that runs: memory that others write
  DeviceArena::Access* access = nullptr;
  char* stacks = nullptr;
  Random random{1};
};

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

// One thread in so many that look at a phase comes late, by so many turns of all others: a ring has
// gone round several times by then, if that thread is not waited for.
constexpr uint64_t kSlowOneIn = 256, kSlowTurnsMax = 400;

void Arrive(Barrier* barrier, int members) {
  Machine& m = TheMachine();
  m.progress = true;
  const int64_t generation = barrier->generation;
  if (++barrier->arrived == members) {
    barrier->arrived = 0;
    ++barrier->generation;
    return;
  }
  while (barrier->generation == generation) Yield();
}

void Finish(std::vector<Copy>* copies) {
  for (const Copy& copy : *copies) {
    if (copy.valid) {
      std::memcpy(copy.to, copy.from, 16);
    } else {
      std::memset(copy.to, 0, 16);
    }
  }
}

void FiberMain() {
  Machine& m = TheMachine();
  (*m.body)();
  Fiber& fiber = m.fibers[m.running];
  CHECK(fiber.open.empty()) << "a kernel ended with copies it never committed";
  CHECK(!m.early || fiber.waited) << "a kernel that may begin early ended without WaitForEarlier";
  fiber.done = true;
  m.progress = true;
  Yield();
  CHECK(false) << "a finished fiber was resumed";
}

void Prepare(int index) {
  Machine& m = TheMachine();
  Fiber& fiber = m.fibers[index];
  fiber = Fiber();
  char* const top = m.stacks + (index + 1) * kStackBytes;
  // As after a call: the return address at 16 n + 8. Below it the registers of tutti_switch_stack.
  void** sp = reinterpret_cast<void**>(top) - 2;
  *sp = reinterpret_cast<void*>(&FiberMain);
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
  fiber.stack_pointer = sp;
}

void GiveBack() {
  Machine& m = TheMachine();
  if (m.withheld) m.access->AfterWait();
  m.withheld = false;
}

// Says why the process ends, and lets it.
void ExplainFault(int, siginfo_t* fault, void*) {
  constexpr char kText[] =
      "a kernel that may begin early touched memory that others write before WaitForEarlier\n";
  if (TheMachine().withheld && DeviceArena::The().Covers(fault->si_addr)) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
  std::signal(SIGSEGV, SIG_DFL);
}

void ExplainFaults() {
  struct sigaction action = {};
  action.sa_sigaction = &ExplainFault;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
}

// Lets each lane of a warp run to its next barrier; how many came to their end.
int RunWarp(int warp) {
  Machine& m = TheMachine();
  int ended = 0;
  Order order(kWarp, &m.random);
  for (int i = 0; i < kWarp; ++i) {
    const int thread = warp * kWarp + static_cast<int>(order.Next());
    Fiber& fiber = m.fibers[thread];
    if (fiber.done) continue;
    m.running = thread;
    m.here.thread = thread;
    tutti_switch_stack(&m.scheduler, fiber.stack_pointer);
    if (fiber.done) ++ended;
  }
  return ended;
}

void RunBlock(int threads) {
  Machine& m = TheMachine();
  AsyncProxy& proxy = TheProxy();
  m.fibers.resize(threads);
  m.warps.assign((threads + kWarp - 1) / kWarp, Warp());
  m.block = Barrier();
  m.warpgroups.assign(m.warps.size() / (kWarpgroup / kWarp), Barrier());
  for (int i = 0; i < threads; ++i) Prepare(i);
  uint64_t steps_apart = 0;  // drawn when there is something
  const auto warps = static_cast<int64_t>(m.warps.size());
  int left = threads;
  if (m.withheld) m.access->BeforeWait();
  while (left > 0) {
    bool progress = false;
    Order order(warps, &m.random);
    for (int64_t i = 0; i < warps; ++i) {
      const auto warp = static_cast<int>(order.Next());
      // One warp in four runs until it has to wait for the others.
      const bool ahead = warps > 1 && m.random.Bits() % 4 == 0;
      do {
        m.progress = false;
        left -= RunWarp(warp);
        progress = progress || m.progress;
      } while (ahead && m.progress);
      if (proxy.idle()) continue;
      if (steps_apart == 0) steps_apart = uint64_t{1} << (2 * (m.random.Bits() % kPaces));
      if (m.random.Bits() % steps_apart == 0) {
        progress = proxy.Step(&m.random) || progress;
      }
    }
    progress = std::exchange(m.dawdles, false) || progress;
    // An operation that all wait for happens at last.
    if (!progress) progress = proxy.Step(&m.random);
    if (!progress && m.withheld) {
      GiveBack();  // all that can have come to where they wait for others
      continue;
    }
    CHECK(progress) << "block (" << m.here.block_x << ", " << m.here.block_y << "): " << left
                    << " threads wait at a barrier the others never reach";
  }
}

}  // namespace

void Yield() {
  Machine& m = TheMachine();
  tutti_switch_stack(&m.fibers[m.running].stack_pointer, m.scheduler);
}

void Dawdle() {
  Machine& m = TheMachine();
  if (m.random.Bits() % kSlowOneIn != 0) return;
  for (uint64_t turns = m.random.Bits() % kSlowTurnsMax; turns > 0; --turns) {
    m.dawdles = true;
    Yield();
  }
}

void CheckMayCopy(const void* from) {
  const Machine& m = TheMachine();
  const DeviceArena& arena = DeviceArena::The();
  CHECK(!m.early || m.fibers[m.running].waited || !arena.Covers(from) || arena.IsConstant(from))
      << "a kernel that may begin early copies what others write before WaitForEarlier";
}

void NoteProgress() { TheMachine().progress = true; }

void SetFenced(bool fenced) {
  Machine& m = TheMachine();
  m.fibers[m.running].fenced = fenced;
}
bool IsFenced() {
  const Machine& m = TheMachine();
  return m.fibers[m.running].fenced;
}

const Position& Here() { return TheMachine().here; }

void SeedSchedule(uint64_t seed) { TheMachine().random = Random(seed); }

const Words* Exchange(const Words& words) {
  Machine& m = TheMachine();
  const int thread = m.running;
  Warp& warp = m.warps[thread / kWarp];
  // Two sets take turns, so that a fast lane does not overwrite words that a slow one still reads.
  auto& set = warp.words[m.fibers[thread].exchanges++ % 2];
  std::memcpy(set[thread % kWarp], words, sizeof(words));
  Arrive(&warp.barrier, kWarp);
  return set;
}

void BlockBarrier() {
  Machine& m = TheMachine();
  Arrive(&m.block, m.here.threads);
}

void WarpgroupBarrier() {
  Machine& m = TheMachine();
  const auto group = static_cast<size_t>(m.running / kWarpgroup);
  CHECK(group < m.warpgroups.size()) << "a barrier of less than a warpgroup";
  Arrive(&m.warpgroups[group], kWarpgroup);
}

void WaitForEarlier() {
  Machine& m = TheMachine();
  Fiber& fiber = m.fibers[m.running];
  if (!fiber.waited) m.progress = true;
  fiber.waited = true;
  while (m.withheld) Yield();
}

void QueueCopy(void* to, const void* from, bool valid) {
  CHECK(reinterpret_cast<uintptr_t>(to) % 16 == 0) << "an unaligned target";
  CHECK(!valid || reinterpret_cast<uintptr_t>(from) % 16 == 0) << "an unaligned source";
  // From now on the bytes may arrive at any time: a read of the earlier contents gives NaN.
  std::memset(to, 0xff, 16);
  if (valid) CheckMayCopy(from);
  Machine& m = TheMachine();
  m.fibers[m.running].open.push_back({to, from, valid});
}

void CommitCopies() {
  Machine& m = TheMachine();
  Fiber& fiber = m.fibers[m.running];
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

void FinishCopies(int pending) {
  Machine& m = TheMachine();
  Fiber& fiber = m.fibers[m.running];
  while (static_cast<int>(fiber.groups.size()) > pending) {
    Finish(&fiber.groups.front());
    fiber.groups.erase(fiber.groups.begin());
  }
}

void RunGrid(Grid grid, int threads, int shared_bytes, const std::function<void()>& body,
             bool early) {
  DeviceArena::Access access;
  Machine& m = TheMachine();
  CHECK(threads > 0 && threads <= kThreadsMax && threads % kWarp == 0) << threads << " threads";
  constexpr int64_t kGridYMax = 65535;  // CUDA's
  CHECK(grid.y <= kGridYMax) << grid.y;
  constexpr int kSharedBytesMax = 163 << 10;        // of compute capability 8.0
  constexpr int kSharedBytesMaxHopper = 227 << 10;  // of 9.0
  CHECK(shared_bytes <= kSharedBytesMaxHopper) << shared_bytes << " bytes of shared memory";
  if (m.stacks == nullptr) {
    ExplainFaults();
    m.stacks = static_cast<char*>(mmap(nullptr, kThreadsMax * kStackBytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    CHECK(m.stacks != MAP_FAILED);
  }
  // Whole 16-byte pieces, nothing beyond them.
  std::unique_ptr<char, void (*)(void*)> shared(
      static_cast<char*>(std::aligned_alloc(16, (shared_bytes + 31) / 16 * 16)), std::free);
  m.body = &body;
  m.early = early;
  m.access = &access;
  m.here.threads = threads;
  m.here.shared = shared.get();
  constexpr int64_t kGridXMax = (int64_t{1} << 31) - 1;  // CUDA's
  CHECK(grid.x <= kGridXMax && grid.x * grid.y <= kGridXMax) << grid.x << " by " << grid.y;
  m.here.blocks_x = grid.x;
  TheProxy().BeginGrid();
  Order order(grid.x * grid.y, &m.random);
  for (int64_t i = 0; i < grid.x * grid.y; ++i) {
    const int64_t block = order.Next();
    m.here.block_x = block % grid.x;
    m.here.block_y = block / grid.x;
    std::memset(shared.get(), 0xff, shared_bytes);
    TheProxy().BeginBlock(shared.get(), shared_bytes, threads / kWarp);
    m.withheld = early && i == 0;
    RunBlock(threads);
    TheProxy().EndBlock();
    GiveBack();
  }
  m.early = false;
  CHECK(shared_bytes <= kSharedBytesMax || TheProxy().used())
      << shared_bytes << " bytes of shared memory in a kernel for 8.0";
}

}  // namespace tutti::kernels::cuda::emulated
