// The MLP of a layer whose tokens go to experts: routing, the experts' products, and the exchange
// of their results over ranks.
#include <utility>

#include "kernels/family_operators.h"
#include "model/partition.h"
#include "worker/transformer.h"

namespace tutti::worker {

using kernels::ProductRows;
using kernels::TensorView;

// residual = round(residual + the sum over a token's experts, in their order, of share * MLP of the
// expert), both of norm(residual)
absl::Status Transformer::Experts(int64_t layer, int64_t rows, const ProgressCallback& progress) {
  kernels::FamilyOperators& operators = *backend_->family_operators();
  const LayerWeights& weights = weights_.layers[layer];
  const TensorView residual = scratch_.residual.Rows(0, rows);
  const TensorView normed = scratch_.normed.Rows(0, rows);
  const TensorView router = scratch_.router.Rows(0, rows);

  backend_->MatMul(normed, *weights.router, router);
  routing_.Resize(rows, config_.experts_per_token);
  TUTTI_RETURN_IF_ERROR(WaitForDevices());
  operators.SelectExperts(router, config_.experts_per_token, config_.norm_topk_prob,
                          routing_.experts(), routing_.shares());
  routing_.Group(config_.num_experts);

  // Rows of one expert stand together: each of its weights is read once.
  TUTTI_ASSIGN_OR_RETURN(TensorView results, MemoryForResults());
  const model::Range own = model::ExpertsOfRank(config_, options_.place.ranks, options_.place.rank);
  for (int64_t e = own.begin; e < own.end; ++e) {
    const auto tokens = routing_.TokensOf(e);
    if (tokens.empty()) continue;
    const auto n = static_cast<int64_t>(tokens.size());
    const TensorView gathered = scratch_.gathered.Rows(0, n);
    const TensorView gate_up = scratch_.expert_gate_up.Rows(0, n);
    operators.GatherRows(normed, tokens, gathered);
    backend_->MatMul(gathered, *weights.experts[e].gate_up, gate_up);
    const ProductRows activated = {scratch_.expert_activated.Rows(0, n),
                                   weights.experts[e].down.get()};
    joined_->SiluMul(gate_up, activated);
    joined_->MatMul(activated, results.Rows(routing_.FirstOf(e), n));
    Tell(progress);
  }
  if (options_.place.ranks > 1) {
    TUTTI_ASSIGN_OR_RETURN(results, ExchangeResults(results));
  }
  operators.SumRows(results, routing_.places(), routing_.shares(), normed);
  joined_->AddResidual(residual, normed, config_.residual_dtype(), AttentionNorm(layer + 1, rows));
  return absl::OkStatus();
}

// [routing_.size(), hidden], in the memory of exchanges where that is the backend's.
absl::StatusOr<TensorView> Transformer::MemoryForResults() {
  const int64_t count = routing_.size();
  if (options_.place.ranks == 1 || backend_->device() != kernels::Device()) {
    return scratch_.results.Rows(0, count);
  }
  return AcquireRows(count);
}

// The ranks' results together: of whole experts all rows, else the sums over the ranks' slices.
//
// Rows stand by expert, so a rank's experts are contiguous, in rank order. With whole experts
// nothing is added: each row is as one rank alone would have computed it.
absl::StatusOr<TensorView> Transformer::ExchangeResults(TensorView results) {
  const auto [ranks, rank] = options_.place;
  kernels::Collective& collective = *options_.collective;
  gather_begin_.clear();
  for (int r = 0; r < ranks; ++r) {
    gather_begin_.push_back(routing_.FirstOf(model::ExpertsOfRank(config_, ranks, r).begin));
  }
  gather_begin_.push_back(results.rows);
  if (collective.on_device()) {
    TUTTI_RETURN_IF_ERROR(config_.whole_experts ? collective.GatherOnDevice(results, gather_begin_)
                                                : collective.SumOnDevice(results));
    return results;
  }
  const bool on_host = backend_->device() == kernels::Device();
  TensorView all = results;
  if (!on_host) {
    TUTTI_ASSIGN_OR_RETURN(all, AcquireRows(results.rows));
    const model::Range own = model::ExpertsOfRank(config_, ranks, rank);
    const int64_t first = routing_.FirstOf(own.begin);
    const int64_t made = routing_.FirstOf(own.end) - first;
    backend_->Convert(results.Rows(first, made), all.Rows(first, made));
  }
  if (config_.whole_experts) {
    for (int64_t& begin : gather_begin_) {
      begin *= config_.hidden_size * static_cast<int64_t>(sizeof(float));
    }
    TUTTI_RETURN_IF_ERROR(collective.Gather(gather_begin_));
  } else {
    TUTTI_ASSIGN_OR_RETURN(const std::span<const float> sum, collective.Sum());
    all = HostView(const_cast<float*>(sum.data()), DType::kF32, results.rows, config_.hidden_size);
  }
  if (on_host) return all;
  backend_->Convert(all, results);
  return results;
}

}  // namespace tutti::worker
