#include "kernels/cuda/emulated/async_proxy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/emulated/machine.h"
#include "kernels/cuda/emulated/tensor_core.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cuda::emulated {
namespace {

// A NaN that no kernel makes.
constexpr uint32_t kUnderWay = 0x7fd15ea5;

struct Faults {
  bool differs = false;
  WgmmaFault fault = nullptr;
};
Faults& TheFaults() {
  static Faults faults = [] {
    const char* const set = std::getenv("TUTTI_EMULATED_WGMMA");
    return Faults{.differs = set != nullptr && std::strcmp(set, "differs") == 0};
  }();
  return faults;
}

float ToFloat(uint16_t bits, bool bf16) { return bf16 ? Bf16ToF32(bits) : F16ToF32(bits); }

constexpr int kRowsOfWarp = kWgmmaOut / 4;
constexpr int kColumnsMax = 256;

}  // namespace

void SetWgmmaDiffers(bool differs) { TheFaults().differs = differs; }
bool WgmmaDiffers() { return TheFaults().differs; }
void SetWgmmaFault(WgmmaFault fault) { TheFaults().fault = fault; }

AsyncProxy& TheProxy() {
  static AsyncProxy proxy;
  return proxy;
}

// Fields of our own: a GPU's are opaque.
struct AsyncProxy::Barrier {
  static constexpr int kArrivalsMax = 1000;  // less than unwritten shared memory says
  int parity;                                // of the phase under way
  int arrivals;                              // of a phase
  int missing;                               // arrivals
  int64_t bytes;                             // announced and not here; negative: the other way
};

void AsyncProxy::BeginBlock(char* shared, int bytes, int warps) {
  shared_ = shared;
  bytes_ = bytes;
  view_.clear();
  warps_.assign(warps, Warp());
  unpublished_.clear();
}

void AsyncProxy::EndBlock() {
  CHECK(copies_.empty()) << "a block ended while bulk copies to it were under way";
  for (const Warp& warp : warps_) {
    CHECK(warp.sums.empty()) << "a block ended with a Wgmma that was not waited for";
  }
}

void AsyncProxy::Use() {
  used_ = true;
  if (view_.empty()) view_.assign(bytes_, '\xff');
}

AsyncProxy::Barrier AsyncProxy::Read(const ArrivalBarrier* barrier) const {
  const uint64_t state = barrier->state;
  const Barrier bits = {.parity = static_cast<int>(state & 1),
                        .arrivals = static_cast<int>(state >> 1 & 0x3ff),
                        .missing = static_cast<int>(state >> 11 & 0x3ff),
                        .bytes = static_cast<int64_t>(state) >> 21};
  CHECK(bits.arrivals > 0 && bits.arrivals <= Barrier::kArrivalsMax)
      << "a barrier that was not initialized";
  return bits;
}

// Ends the phase when it is complete.
void AsyncProxy::Write(const Barrier& bits, ArrivalBarrier* barrier) {
  Barrier next = bits;
  CHECK(next.missing >= 0) << "more arrivals than a barrier was made for";
  if (next.missing == 0 && next.bytes == 0) {
    next.parity ^= 1;
    next.missing = next.arrivals;
  }
  barrier->state = static_cast<uint64_t>(next.bytes) << 21 |
                   static_cast<uint64_t>(next.missing) << 11 |
                   static_cast<uint64_t>(next.arrivals) << 1 | static_cast<uint64_t>(next.parity);
}

void AsyncProxy::InitBarrier(ArrivalBarrier* barrier, int arrivals) {
  Use();
  CHECK(Address(barrier) % 8 == 0 && arrivals > 0 && arrivals <= Barrier::kArrivalsMax);
  Write({.parity = 0, .arrivals = arrivals, .missing = arrivals, .bytes = 0}, barrier);
  unpublished_.push_back(barrier);
}

void AsyncProxy::Arrive(ArrivalBarrier* barrier, int bytes) {
  Barrier bits = Read(barrier);
  bits.bytes += bytes;
  --bits.missing;
  Write(bits, barrier);
  NoteProgress();
}

bool AsyncProxy::Ended(ArrivalBarrier* barrier, uint32_t parity) {
  return Read(barrier).parity != static_cast<int>(parity);
}

void AsyncProxy::Fence() {
  Use();
  std::memcpy(view_.data(), shared_, bytes_);
}

uint32_t AsyncProxy::Address(const void* shared) {
  const auto* const at = static_cast<const char*>(shared);
  CHECK(at >= shared_ && at < shared_ + bytes_) << "not in shared memory";
  return static_cast<uint32_t>(at - shared_) + kSharedBase;
}

void AsyncProxy::StartCopy(void* shared, const void* from, int bytes, ArrivalBarrier* barrier) {
  Use();
  auto* const to = static_cast<char*>(shared);
  CHECK(bytes > 0 && bytes % 16 == 0 && Address(to) % 16 == 0 &&
        reinterpret_cast<uintptr_t>(from) % 16 == 0)
      << "an unaligned bulk copy";
  CHECK(to + bytes <= shared_ + bytes_) << "a bulk copy beyond shared memory";
  CHECK(std::find(unpublished_.begin(), unpublished_.end(), barrier) == unpublished_.end())
      << "a bulk copy to a barrier that was not published";
  std::memset(to, 0xff, bytes);
  std::memset(view_.data() + (to - shared_), 0xff, bytes);
  copies_.push_back({to, from, bytes, barrier});
}

void AsyncProxy::Arrived(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
  std::memcpy(view_.data() + (copy.to - shared_), copy.from, copy.bytes);
  Barrier bits = Read(copy.barrier);
  bits.bytes -= copy.bytes;
  Write(bits, copy.barrier);
}

bool AsyncProxy::Step(Random* random) {
  if (idle()) return false;
  const uint64_t choice = random->Bits();
  if (!copies_.empty() && (started_ == 0 || choice % 2 == 0)) {
    Copy& chosen = copies_[choice / 2 % copies_.size()];
    const Copy copy = chosen;
    chosen = copies_.back();
    copies_.pop_back();
    Arrived(copy);
    return true;
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[(choice / 2 + i) % warps_.size()];
    if (warp.queue.empty()) continue;
    MultiplyNext(&warp);
    return true;
  }
  return false;
}

void AsyncProxy::StartWgmma(int warp_index, const Lanes& lanes, int sums, uint64_t b, bool bf16) {
  Use();
  CHECK(warps_.size() >= 4 && warp_index < static_cast<int>(warps_.size() / 4 * 4))
      << "a Wgmma of less than a warpgroup";
  Warp& warp = warps_[warp_index];
  if (!warp.open) {
    for (const bool fenced : lanes.fenced) {
      CHECK(fenced) << "a group of Wgmma began without a fence before it";
    }
  }
  warp.open = true;
  const auto [at, is_new] = warp.sums.try_emplace(lanes.c[0]);
  Sums& held = at->second;
  if (is_new) {
    held.count = sums;
    held.lanes = lanes.c;
    held.values.resize(int64_t{kWarp} * sums);
    for (int lane = 0; lane < kWarp; ++lane) {
      std::memcpy(&held.values[int64_t{lane} * sums], lanes.c[lane], sums * sizeof(float));
      std::fill_n(reinterpret_cast<uint32_t*>(lanes.c[lane]), sums, kUnderWay);
    }
  }
  CHECK(held.count == sums && held.lanes == lanes.c) << "sums that overlap";
  held.last_group = warp.group;
  warp.queue.push_back({lanes.c, lanes.a, sums, b, bf16, warp.group});
  ++started_;
}

void AsyncProxy::Commit(int warp_index) {
  Warp& warp = warps_[warp_index];
  ++warp.group;
  warp.open = false;
}

void AsyncProxy::Wait(int warp_index, int pending) {
  Warp& warp = warps_[warp_index];
  const int64_t through = warp.group - pending;  // groups before this one
  while (!warp.queue.empty() && warp.queue.front().group < through) MultiplyNext(&warp);
  warp.waited_for = std::max(warp.waited_for, through);
}

void AsyncProxy::AcceptSums(int warp_index, float* lane_0) {
  Warp& warp = warps_[warp_index];
  const auto at = warp.sums.find(lane_0);
  if (at == warp.sums.end()) return;  // nothing was added
  const Sums& held = at->second;
  CHECK(held.last_group < warp.waited_for) << "sums of a Wgmma that was not waited for";
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto* const bits = reinterpret_cast<const uint32_t*>(held.lanes[lane]);
    CHECK(std::all_of(bits, bits + held.count, [](uint32_t x) { return x == kUnderWay; }))
        << "sums of a Wgmma were written before they were taken";
    std::memcpy(held.lanes[lane], &held.values[int64_t{lane} * held.count],
                held.count * sizeof(float));
  }
  warp.sums.erase(at);
}

uint16_t AsyncProxy::ValueAt(uint32_t address) const {
  const uint32_t offset = address - kSharedBase;
  CHECK(address >= kSharedBase && offset + 2 <= static_cast<uint32_t>(bytes_))
      << "a matrix beyond shared memory: " << address;
  uint16_t value;
  std::memcpy(&value, view_.data() + offset, 2);
  return value;
}

void AsyncProxy::MultiplyNext(Warp* warp) {
  const Started next = warp->queue.front();
  warp->queue.pop_front();
  --started_;
  // The fragment of A: word i of lane 4 g + t holds row g, or g + 8 for odd i, and k 2 t and 2 t +
  // 1, 8 more for i >= 2.
  float left[kRowsOfWarp][kWgmmaK], right[kWgmmaK][kColumnsMax];
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const int word = i / 2, half = i % 2;
      const int row = lane / 4 + (word % 2) * 8, k = lane % 4 * 2 + half + (word / 2) * 8;
      const auto bits = static_cast<uint16_t>(next.a[lane][word] >> (16 * half));
      left[row][k] = ToFloat(bits, next.bf16);
    }
  }
  // The descriptor, by the fields of PTX: start address, leading and stride dimension byte offsets
  // in units of 16 bytes, base offset, swizzle.
  const auto field = [&](int low, int high) {
    return static_cast<uint32_t>(next.b >> low & ((uint64_t{1} << (high - low + 1)) - 1));
  };
  CHECK(field(49, 51) == 0 && field(62, 63) == 0) << "a swizzled matrix";
  const uint32_t start = field(0, 13) * 16, leading = field(16, 29) * 16,
                 stride = field(32, 45) * 16;
  const int columns = 2 * next.sums;
  for (int k = 0; k < kWgmmaK; ++k) {
    for (int n = 0; n < columns; ++n) {
      const auto core =
          static_cast<uint32_t>(k / 8) * leading + static_cast<uint32_t>(n / 8) * stride;
      const auto inside = static_cast<uint32_t>(n % 8 * 16 + k % 8 * 2);
      right[k][n] = ToFloat(ValueAt(start + core + inside), next.bf16);
    }
  }
  // The sums as rows, then back to their lanes.
  Sums& held = warp->sums.at(next.c[0]);
  const auto place = [&](int row, int column) -> float& {
    const int lane = row % 8 * 4 + column % 8 / 2;
    return held.values[int64_t{lane} * next.sums + column / 8 * 4 + row / 8 * 2 + column % 2];
  };
  const Faults& faults = TheFaults();
  const int first_row = static_cast<int>((warp - warps_.data()) % 4) * kRowsOfWarp;
  for (int row = 0; row < kRowsOfWarp; ++row) {
    float sum[kColumnsMax], before[kColumnsMax];
    for (int n = 0; n < columns; ++n) sum[n] = before[n] = place(row, n);
    if (TensorCoresTruncate()) {
      for (int n = 0; n < columns; ++n) {
        float column[kWgmmaK];
        for (int k = 0; k < kWgmmaK; ++k) column[k] = right[k][n];
        sum[n] = TruncatingSum(sum[n], left[row], column);
      }
    } else {
      for (int i = 0; i < kWgmmaK; ++i) {
        const int k = faults.differs ? kWgmmaK - 1 - i : i;
        for (int n = 0; n < columns; ++n) sum[n] += left[row][k] * right[k][n];
      }
    }
    for (int n = 0; n < columns; ++n) {
      place(row, n) = faults.fault == nullptr
                          ? sum[n]
                          : faults.fault(next.bf16, first_row + row, n, before[n], sum[n]);
    }
  }
}

}  // namespace tutti::kernels::cuda::emulated
