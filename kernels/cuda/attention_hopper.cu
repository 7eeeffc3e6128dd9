#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/attention_hopper_ring.h"
#include "kernels/cuda/attention_hopper_tile.h"
#include "kernels/cuda/gpu_hopper.h"

namespace tutti::kernels::cuda {
namespace {

template <bool kBf16, class Shape>
TUTTI_LARGE_KERNEL(kAttendThreads)
AttendWide(TUTTI_PARAMETER AttentionArgs args) {
  LetNextBegin();
  const auto block = static_cast<int32_t>(BlockX());
  const AttentionItem item = args.items[block / args.layout.kv_heads];
  const int32_t head = block % args.layout.kv_heads;
  TileRing<Shape> ring;
  ring.Init();
  WaitForEarlier();
  if (item.pair_begin == item.pair_end) return;  // one that only makes lists equally long
  // One that the compiler sees to be the same for all lanes, as Wgmma asks of branches around it.
  const int warp = Broadcast(WarpIndex(), 0);
  if (warp >= kGroups * kGroupWarps) {
    ReleaseRegisters<kBringRegisters>();
    if (warp == kGroups * kGroupWarps) BringTiles<Shape>(args, item, head, ring);
  } else {
    ClaimRegisters<kAttendRegisters>();
    PairAttender<kBf16, Shape>(args, item, head, warp, ring).Run();
  }
}

template <bool kBf16, int kDim>
void LaunchWideOf(const AttentionArgs& args, Launcher* launcher) {
  using Shape = AttendShape<kDim>;
  LaunchEarly(&AttendWide<kBf16, Shape>, {int64_t{1} * args.item_count * args.layout.kv_heads},
              kAttendThreads, Shape::kSharedBytes, launcher, args);
}

template <bool kBf16>
void LaunchWideDim(const AttentionArgs& args, Launcher* launcher) {
  return args.layout.dim == 64 ? LaunchWideOf<kBf16, 64>(args, launcher)
                               : LaunchWideOf<kBf16, 128>(args, launcher);
}

}  // namespace

bool HasWideAttention(const KvLayout& layout, int32_t head_dim) {
  return !layout.plain && layout.dim == head_dim && (head_dim == 64 || head_dim == 128);
}

void LaunchWideAttention(DType type, const AttentionArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchWideDim<true>(args, launcher)
                              : LaunchWideDim<false>(args, launcher);
}

}  // namespace tutti::kernels::cuda
