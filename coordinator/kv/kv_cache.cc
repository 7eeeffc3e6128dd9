#include "coordinator/kv/kv_cache.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/fail_point.h"

namespace tutti::coordinator {

KvCache::KvCache(KvDirectory* directory, PipelineId pipeline, int32_t block_size)
    : directory_(directory), pipeline_(pipeline), block_size_(block_size) {
  CHECK(block_size > 0);
  CHECK(directory == nullptr || directory->block_size() == block_size);
}

void KvCache::Open(int32_t num_blocks) {
  CHECK(!pool_.has_value());
  if (laid_by_.has_value() && directory_ != nullptr) directory_->ClosePipeline(pipeline_);
  laid_by_.reset();
  lacking_.Clear();
  ++version_;
  pool_.emplace(num_blocks);
  if (directory_ != nullptr) directory_->OpenPipeline(pipeline_, num_blocks);
}

void KvCache::LayBy() {
  ++version_;
  pool_->CheckEveryBlock();
  CHECK(pool_->in_use() == 0) << pool_->in_use() << " blocks are held, and no sequence runs";
  laid_by_ = std::move(pool_);
  pool_.reset();
}

void KvCache::Close() {
  LayBy();
  laid_by_.reset();
  if (directory_ != nullptr) directory_->ClosePipeline(pipeline_);
}

BlockId KvCache::FreeOfLaidBy() {
  CHECK(laid_by_.has_value());
  evicted_.clear();
  std::vector<BlockId> blocks;
  laid_by_->Allocate(1, &blocks, &evicted_);
  for (const BlockId block : evicted_) directory_->Forget(pipeline_, block);
  laid_by_->Release(blocks);
  return blocks.front();
}

void KvCache::Resume(const KvSurvival& survival) {
  CHECK(!pool_.has_value() && laid_by_.has_value() && survival.any());
  ++version_;
  pool_ = std::move(laid_by_);
  laid_by_.reset();
  KvSurvival believed = survival;
  if (TUTTI_FAIL_POINT("coordinator.believe_lost_stage")) believed.lost = 0;
  lacking_.Lose(believed, pool_->total());
}

std::optional<int32_t> KvCache::FirstDue(const Sequence& sequence) const {
  const Sequence::Stay& stay = sequence.stay;
  for (int32_t i = 0; i < stay.published; ++i) {
    if (lacking_.IsDue(stay.blocks[i])) return i;
  }
  return std::nullopt;
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
  Sequence::Stay& stay = sequence->stay;
  CHECK(stay.blocks.empty());
  ++version_;
  for (const BlockId block : room.prefix) pool_->Share(block);
  stay.blocks = room.prefix;
  stay.published = static_cast<int32_t>(room.prefix.size());
  const int32_t cached = stay.published * block_size_;
  if (!sequence->first_planned_at.has_value()) {
    sequence->cached_tokens = std::min(cached, sequence->prompt_tokens);
    counters_.lookup_tokens += static_cast<uint64_t>(sequence->total());
    counters_.hit_tokens += static_cast<uint64_t>(cached);
  }
  stay.computed = stay.planned = cached;
  // A preempted sequence believes that its first block is still computed.
  if (sequence->first_planned_at.has_value() && cached == 0 &&
      TUTTI_FAIL_POINT("coordinator.keep_computed")) {
    stay.computed = stay.planned = std::min(block_size_, sequence->total() - 1);
  }
  Allocate(Missing(*sequence, sequence->total()), &stay.blocks);
}

int32_t KvCache::Missing(const Sequence& sequence, int64_t tokens) const {
  const int64_t wanted = (tokens + block_size_ - 1) / block_size_;
  return static_cast<int32_t>(
      std::max<int64_t>(0, wanted - static_cast<int64_t>(sequence.stay.blocks.size())));
}

void KvCache::Grow(int32_t count, Sequence* sequence) {
  Allocate(count, &sequence->stay.blocks);
  // Its first block goes while it still reads it.
  if (TUTTI_FAIL_POINT("coordinator.free_block_early")) {
    pool_->Release(std::span(sequence->stay.blocks).first(1));
  }
}

void KvCache::Allocate(int32_t count, std::vector<BlockId>* blocks) {
  ++version_;
  evicted_.clear();
  pool_->Allocate(count, blocks, &evicted_);
  counters_.evictions += evicted_.size();
  for (size_t i = blocks->size() - static_cast<size_t>(count); i < blocks->size(); ++i) {
    lacking_.Overwrite((*blocks)[i]);
  }
  if (TUTTI_FAIL_POINT("coordinator.keep_evicted")) return;
  for (const BlockId block : evicted_) directory_->Forget(pipeline_, block);
}

void KvCache::CheckWritable(const Sequence& sequence, int32_t first, int32_t end) const {
  for (int32_t i = FullBlocks(first); i <= FullBlocks(end - 1); ++i) {
    const BlockId block = sequence.stay.blocks[i];
    CHECK(pool_->holders(block) == 1 && !pool_->published(block))
        << "block " << block << " would be written while others read it";
  }
}

void KvCache::Publish(Sequence* sequence) {
  if (directory_ == nullptr) return;
  Sequence::Stay& stay = sequence->stay;
  // Sequences that begin with these blocks need fewer of their own now.
  const bool makes_room = stay.published < FullBlocks(stay.computed);
  if (makes_room && !TUTTI_FAIL_POINT("coordinator.publish_unnoticed")) ++version_;
  for (; stay.published < FullBlocks(stay.computed); ++stay.published) {
    const int32_t i = stay.published;
    const auto parent = i == 0 ? std::nullopt : std::optional(stay.blocks[i - 1]);
    directory_->Publish(pipeline_, sequence->request.cache_domain, parent, stay.blocks[i],
                        std::span(sequence->tokens).subspan(i * block_size_, block_size_));
    pool_->MarkPublished(stay.blocks[i]);
  }
}

void KvCache::Release(const Sequence& sequence) {
  ++version_;
  const std::vector<BlockId>& blocks = sequence.stay.blocks;
  pool_->Release(blocks);
  if (TUTTI_FAIL_POINT("coordinator.free_shared_block")) {
    for (const BlockId& block : blocks) {
      while (pool_->holders(block) > 0) pool_->Release({&block, 1});
    }
  }
  if (!blocks.empty() && TUTTI_FAIL_POINT("coordinator.free_block_twice")) {
    pool_->Release(std::span(blocks).last(1));
  }
}

int32_t KvCache::GivenBack(const Sequence& running, const Room& room) const {
  const std::vector<BlockId>& blocks = running.stay.blocks;
  int32_t given = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool in_prefix = i < room.prefix.size() && room.prefix[i] == blocks[i];
    if (!in_prefix && pool_->holders(blocks[i]) == 1) ++given;
  }
  return given;
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
