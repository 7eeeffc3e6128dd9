// Steps in which stages compute what they have lost, while the others have it still: the running
// sequences of a pipeline that begin with such blocks, and the plans that compute these.
//
// A rebuild knows no sequence of the scheduler's: the workers are told of a new one for each of its
// entries, and forget it with the next plan. So it does not matter whether the sequence that wants
// the blocks stays, nor which of several does.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "coordinator/kv/kv_cache.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/plan_size.h"
#include "coordinator/steps/step_window.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

class Rebuilds {
 public:
  // REQUIRES: `cache` outlives this
  Rebuilds(const PlanSizeOptions& options, KvCache* cache) : options_(options), cache_(cache) {}

  // A sequence that runs, of whose blocks some are due. No step computes its own tokens before
  // those are planned.
  void Add(Sequence* sequence) { waiting_.push_back(sequence); }
  // It leaves. Whether it was there.
  bool Erase(Sequence* sequence) { return std::erase(waiting_, sequence) > 0; }
  // Those of which some blocks are not planned.
  size_t size() const { return waiting_.size(); }

  struct Planned {
    std::vector<Sequence*> ready;                  // all their blocks are planned: they have left
    std::optional<StepUnderWay::Rebuild> rebuild;  // none: nothing is due
    std::vector<SequenceId> told;  // sequences made up for it, which the workers forget next
  };
  // Writes the entries of one step into the plan: those of one part, the blocks that the same
  // stages compute. Blocks of a prefix come after those before them, in the same entry or in a
  // later step. `last_id`: of the last sequence that workers were told of, which it counts on.
  Planned Plan(uint64_t* last_id, v1::StepPlan* plan);
  // The stages of its part have computed them.
  void Commit(const StepUnderWay::Rebuild& rebuild);

  // Tokens whose K/V some stages have computed anew.
  uint64_t tokens() const { return tokens_; }

 private:
  int32_t AddEntry(const Sequence& sequence, int32_t first_block, int32_t rows_max, SequenceId id,
                   StepUnderWay::Rebuild* rebuild, v1::StepPlan* plan);

  const PlanSizeOptions options_;
  KvCache* const cache_;
  std::vector<Sequence*> waiting_;  // in the order of admission
  uint64_t tokens_ = 0;
};

}  // namespace tutti::coordinator
