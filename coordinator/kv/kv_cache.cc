#include "coordinator/kv/kv_cache.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "coordinator/planted_bugs.h"

namespace tutti::coordinator {

KvCache::KvCache(KvDirectory* directory, PipelineId pipeline, int32_t block_size,
                 uint32_t planted_bugs)
    : directory_(directory),
      pipeline_(pipeline),
      block_size_(block_size),
      planted_bugs_(planted_bugs) {
  CHECK(block_size > 0);
  CHECK(directory == nullptr || directory->block_size() == block_size);
}

void KvCache::Open(int32_t num_blocks) {
  CHECK(!pool_.has_value());
  pool_.emplace(num_blocks);
  if (directory_ != nullptr) directory_->OpenPipeline(pipeline_, num_blocks);
}

void KvCache::Close() {
  pool_->CheckEveryBlock();
  CHECK(pool_->in_use() == 0) << pool_->in_use() << " blocks are held by nobody who runs";
  pool_.reset();
  if (directory_ != nullptr) directory_->ClosePipeline(pipeline_);
}

KvCache::Room KvCache::Find(const Sequence& sequence) const {
  Room room;
  if (directory_ != nullptr) {
    room.prefix =
        directory_->Lookup(sequence.request.cache_domain,
                           std::span(sequence.tokens).first(sequence.tokens.size() - 1), pipeline_);
  }
  const auto idle = std::count_if(room.prefix.begin(), room.prefix.end(),
                                  [this](BlockId block) { return pool_->holders(block) == 0; });
  room.blocks = Missing(sequence, sequence.total()) - static_cast<int32_t>(room.prefix.size()) +
                static_cast<int32_t>(idle);
  return room;
}

void KvCache::Admit(const Room& room, Sequence* sequence) {
  CHECK(sequence->blocks.empty());
  for (const BlockId block : room.prefix) pool_->Share(block);
  sequence->blocks = room.prefix;
  sequence->published = static_cast<int32_t>(room.prefix.size());
  const int32_t cached = sequence->published * block_size_;
  if (!sequence->first_planned_at.has_value()) {
    sequence->cached_tokens = cached;
    counters_.lookup_tokens += static_cast<uint64_t>(sequence->total());
    counters_.hit_tokens += static_cast<uint64_t>(cached);
  }
  sequence->computed = sequence->planned = cached;
  if (IsPlanted(planted_bugs_, PlantedBug::kKeepComputed) &&
      sequence->first_planned_at.has_value() && cached == 0) {
    sequence->computed = sequence->planned = std::min(block_size_, sequence->total() - 1);
  }
  Take(Missing(*sequence, sequence->total()), &sequence->blocks);
}

int32_t KvCache::Missing(const Sequence& sequence, int64_t tokens) const {
  const int64_t wanted = (tokens + block_size_ - 1) / block_size_;
  return static_cast<int32_t>(
      std::max<int64_t>(0, wanted - static_cast<int64_t>(sequence.blocks.size())));
}

void KvCache::Grow(int32_t count, Sequence* sequence) {
  Take(count, &sequence->blocks);
  if (IsPlanted(planted_bugs_, PlantedBug::kFreeBlockEarly)) {
    pool_->Release(std::span(sequence->blocks).first(1));
  }
}

void KvCache::Take(int32_t count, std::vector<BlockId>* blocks) {
  evicted_.clear();
  pool_->Take(count, blocks, &evicted_);
  counters_.evictions += evicted_.size();
  if (IsPlanted(planted_bugs_, PlantedBug::kKeepEvicted)) return;
  for (const BlockId block : evicted_) directory_->Forget(pipeline_, block);
}

void KvCache::CheckWritable(const Sequence& sequence, int32_t first, int32_t end) const {
  for (int32_t i = FullBlocks(first); i <= FullBlocks(end - 1); ++i) {
    const BlockId block = sequence.blocks[i];
    CHECK(pool_->holders(block) == 1 && !pool_->published(block))
        << "block " << block << " would be written while others read it";
  }
}

void KvCache::Publish(Sequence* sequence) {
  if (directory_ == nullptr) return;
  for (; sequence->published < FullBlocks(sequence->computed); ++sequence->published) {
    const int32_t i = sequence->published;
    const auto parent = i == 0 ? std::nullopt : std::optional(sequence->blocks[i - 1]);
    directory_->Publish(pipeline_, sequence->request.cache_domain, parent, sequence->blocks[i],
                        std::span(sequence->tokens).subspan(i * block_size_, block_size_));
    pool_->MarkPublished(sequence->blocks[i]);
  }
}

void KvCache::Release(Sequence* sequence) {
  pool_->Release(sequence->blocks);
  if (IsPlanted(planted_bugs_, PlantedBug::kFreeSharedBlock)) {
    for (const BlockId& block : sequence->blocks) {
      while (pool_->holders(block) > 0) pool_->Release({&block, 1});
    }
  }
  if (IsPlanted(planted_bugs_, PlantedBug::kFreeBlockTwice) && !sequence->blocks.empty()) {
    pool_->Release(std::span(sequence->blocks).last(1));
  }
  sequence->blocks.clear();
  sequence->published = 0;
}

int32_t KvCache::SharedBlocks(const Sequence& sequence, const Sequence& running) const {
  if (sequence.request.cache_domain != running.request.cache_domain) return 0;
  const auto& [end, other] =
      std::mismatch(sequence.tokens.begin(), std::prev(sequence.tokens.end()),
                    running.tokens.begin(), running.tokens.end());
  return FullBlocks(static_cast<int32_t>(end - sequence.tokens.begin()));
}

void KvCache::CheckLedger() const {
  if (pool_.has_value()) pool_->CheckLedger();
}

}  // namespace tutti::coordinator
