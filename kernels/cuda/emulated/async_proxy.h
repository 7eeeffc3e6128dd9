// The other party that sees shared memory on compute capability 9.0: bulk copies and the tensor
// cores that work while threads go on (gpu_hopper.h). Everything given to it happens at a moment
// drawn by chance, at the latest when it is waited for:
//
// - a bulk copy leaves NaN where it will arrive, and arrives in any order with others;
// - a Wgmma reads its registers and shared memory when it happens, not when it is given, so values
//   that are changed too early, or overwritten by the next copy, are multiplied as changed. Its
//   sums hold NaN until AcceptSums; if they hold anything else then, or were not waited for, a
//   CHECK fails;
// - it has a view of shared memory of its own, into which threads' writes come by a fence alone;
// - a group of Wgmma that begins without a fence, barriers used before they are published, and
//   blocks that end while something is under way, are failed CHECKs.
//
// One block at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/hopper_operands.h"

namespace tutti::kernels::cuda::emulated {

// Where shared memory begins, for instructions: not at 0, as on a GPU.
inline constexpr uint32_t kSharedBase = 1024;

class AsyncProxy {
 public:
  void BeginBlock(char* shared, int bytes, int warps);
  void EndBlock();  // CHECKs that nothing is under way
  // Whether a kernel of this grid used any of it; then it is one for 9.0.
  bool used() const { return used_; }
  void BeginGrid() { used_ = false; }
  // Lets one thing happen; false when there is nothing.
  bool Step(Random* random);
  bool idle() const { return copies_.empty() && started_ == 0; }

  // By threads, at once:
  void InitBarrier(ArrivalBarrier* barrier, int arrivals);
  void PublishBarriers() { unpublished_.clear(); }
  void Arrive(ArrivalBarrier* barrier, int bytes);  // after announcing the bytes
  bool Ended(ArrivalBarrier* barrier, uint32_t parity);
  void Fence();  // threads' writes so far come into the proxy's view
  void StartCopy(void* shared, const void* from, int bytes, ArrivalBarrier* barrier);
  uint32_t Address(const void* shared);

  // By warps, of which every lane hands over its part:
  struct Lanes {
    std::array<float*, kWarp> c;
    std::array<const uint32_t*, kWarp> a;
    std::array<bool, kWarp> fenced;
  };
  //   sums: of a lane
  void StartWgmma(int warp, const Lanes& lanes, int sums, uint64_t b, bool bf16);
  void Commit(int warp);
  void Wait(int warp, int pending);
  void AcceptSums(int warp, float* lane_0);

 private:
  struct Copy {
    char* to;
    const void* from;
    int bytes;
    ArrivalBarrier* barrier;
  };
  struct Started {
    std::array<float*, kWarp> c;
    std::array<const uint32_t*, kWarp> a;
    int sums;
    uint64_t b;
    bool bf16;
    int64_t group;
  };
  // Sums that the tensor cores hold while they are under way.
  struct Sums {
    std::vector<float> values;  // [lane][sums]
    int count = 0;              // of a lane
    std::array<float*, kWarp> lanes = {};
    int64_t last_group = 0;
  };
  struct Warp {
    std::deque<Started> queue;
    std::map<float*, Sums> sums;  // by lane 0's
    int64_t group = 0;            // that is open
    int64_t waited_for = 0;       // groups
    bool open = false;            // it has instructions
  };
  struct Barrier;  // the bits of an ArrivalBarrier

  void Use();
  Barrier Read(const ArrivalBarrier* barrier) const;
  void Write(const Barrier& bits, ArrivalBarrier* barrier);
  void MultiplyNext(Warp* warp);
  void Arrived(const Copy& copy);
  uint16_t ValueAt(uint32_t address) const;

  char* shared_ = nullptr;
  int bytes_ = 0;
  bool used_ = false;
  std::vector<char> view_;  // the proxy's, of shared memory; empty until it is used
  std::vector<Copy> copies_;
  std::vector<Warp> warps_;
  int64_t started_ = 0;  // instructions that have not happened
  std::vector<const ArrivalBarrier*> unpublished_;
};

AsyncProxy& TheProxy();

// Faults of the tensor cores, for tests. Adds the products of a Wgmma from the last k to the first;
// also by TUTTI_EMULATED_WGMMA=differs in the environment.
void SetWgmmaDiffers(bool differs);
bool WgmmaDiffers();
// Changes an output's bits, by its place and its right value; null: no change.
using WgmmaFault = float (*)(bool bf16, int row, int column, float before, float sum);
void SetWgmmaFault(WgmmaFault fault);

}  // namespace tutti::kernels::cuda::emulated
