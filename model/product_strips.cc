// How ranks' parts of quantised products are divided (partition.h).
#include <numeric>

#include "model/partition.h"

namespace tutti::model {

kernels::StripCounts CountProductStrips(const ModelConfig& config, const QuantConfig& quant,
                                        Role role, int ranks, int rank) {
  const bool rows_split =
      role != Role::kAttentionOutput && role != Role::kDown && role != Role::kExpertDown;
  std::vector<int64_t> leaves = {0, config.hidden_size};
  int first = 0, last = 1;
  if (!rows_split) {
    leaves = LeafBegins(config, role);
    const bool whole = config.whole_experts && role == Role::kExpertDown;
    first = whole ? 0 : rank * kLeaves / ranks;
    last = whole ? kLeaves : (rank + 1) * kLeaves / ranks;
  }
  const int64_t in = leaves.back();
  kernels::GroupShape group = {.kind = quant.kind(), .size = in, .any_order = quant.any_order};
  if (quant.block_columns > 0) {
    group.size = quant.block_columns;
  } else if (quant.group_size > 0) {
    group.size = quant.group_size;
  }
  kernels::StripCounts counts;
  for (int leaf = first; leaf < last; ++leaf) {
    counts += kernels::CountStrips(in, group, leaves[leaf], leaves[leaf + 1]);
  }
  return counts;
}

int64_t QuantisedProductBytes(const ModelConfig& config, const QuantConfig& quant, Role role,
                              const std::vector<int64_t>& rows, int ranks, int rank,
                              const PackingRule& packing) {
  const kernels::StripCounts counts = CountProductStrips(config, quant, role, ranks, rank);
  const auto bytes = [&](int64_t held) {
    return kernels::QuantisedBytes(quant.kind(), quant.scale_type, quant.has_zeros(), held,
                                   counts) +
           (packing.strip_tables ? kernels::GpuTableBytes(counts) : 0);
  };
  // Matrices whose groups may differ are sections of their own.
  if (!quant.any_order) return bytes(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  int64_t total = 0;
  for (const int64_t held : rows) total += bytes(held);
  return total;
}

}  // namespace tutti::model
