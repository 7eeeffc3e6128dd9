// The KV directory: which pipeline holds the K/V of which prefixes, in which blocks.
//
// A prefix is named block by block: the keyed hash of a full block of tokens and of the name before
// it. The first name of the chain covers the cache domain (the tenant), the model's fingerprint,
// its type and the block size, so prefixes of different domains never meet. A name found is not
// believed: the tokens, the parent and the domain are compared too, so that not even a collision
// could give one request another's context.
//
// One directory for all pipelines: a prefix that many requests ask for may live on several. The
// published blocks of a pipeline are a forest: each block knows the block before it on the same
// pipeline, and a sequence that holds a block holds all before it. Pools give up tails before heads
// (block_pool.h), so a published block's parent is always published; this is CHECKed.
//
// Memory beside a block's 4-byte tokens: 48 bytes for the prefix, 5 to 11 in the index, 28 for each
// pipeline's block (bench "directory" measures the sum).
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/ids.h"
#include "base/sip_hash.h"

namespace tutti::coordinator {

struct KvDirectoryOptions {
  Hash128 key;  // random, never leaves the process
  std::string model_fingerprint;
  std::string dtype;  // of the K/V
  int32_t block_size = 16;
};

class KvDirectory {
 public:
  explicit KvDirectory(const KvDirectoryOptions& options);
  KvDirectory(const KvDirectory&) = delete;
  KvDirectory& operator=(const KvDirectory&) = delete;

  // A pipeline begins to serve; nothing of its blocks is published. Ids should be small: memory is
  // kept up to the largest.  REQUIRES: it is not open
  void OpenPipeline(PipelineId pipeline, int32_t num_blocks);
  // The pipeline is gone, with all its blocks.  REQUIRES: it is open
  void ClosePipeline(PipelineId pipeline);

  // `block` holds the K/V of `tokens` [block_size] after all that `parent` and its parents hold; no
  // parent: from position 0.  REQUIRES: the pipeline is open, `block` is not published and
  // `parent` is
  void Publish(PipelineId pipeline, const Hash128& domain, std::optional<BlockId> parent,
               BlockId block, std::span<const TokenId> tokens);
  // The block is about to get other content.  REQUIRES: it is published and no block's parent
  void Forget(PipelineId pipeline, BlockId block);
  bool IsPublished(PipelineId pipeline, BlockId block) const {
    return NodeOf({pipeline.value(), block.value()}).entry != kNone;
  }

  // The blocks of the longest prefix of `tokens` that the pipeline holds, from position 0. A
  // pipeline that is not open holds nothing.
  std::vector<BlockId> Lookup(const Hash128& domain, std::span<const TokenId> tokens,
                              PipelineId pipeline) const;

  struct Match {
    PipelineId pipeline;
    int32_t tokens = 0;  // > 0
  };
  // The part of `tokens` that each pipeline holds, by pipeline; those that hold nothing are left
  // out.
  std::vector<Match> LongestPerPipeline(const Hash128& domain,
                                        std::span<const TokenId> tokens) const;

  int32_t block_size() const { return options_.block_size; }
  // Different prefixes, and blocks that hold one.
  int64_t prefixes() const { return static_cast<int64_t>(index_.size()); }
  int64_t published() const { return published_; }
  // The memory of everything here but the tokens.
  int64_t memory_bytes() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // A block on a pipeline; block -1: none.
  struct Owner {
    uint32_t pipeline = 0;
    int32_t block = -1;
  };
  // One full block of some prefix, wherever it is held. Its tokens are in tokens_.
  struct Entry {
    Hash128 hash;
    Hash128 domain;
    uint32_t parent = kNone;
    int32_t owners = 0;
    Owner first_owner;
  };
  // The content of a block of a pipeline.
  struct Node {
    uint32_t entry = kNone;
    int32_t parent = -1;  // the block before it
    int32_t children = 0;
    // The other owners of the same entry.
    Owner previous;
    Owner next;
  };

  // The index keeps numbers of entries; these find them by the hash of the entry.
  struct HashOf {
    using is_transparent = void;
    const std::vector<Entry>* entries;
    size_t operator()(uint32_t entry) const { return (*entries)[entry].hash.low; }
    size_t operator()(const Hash128& hash) const { return hash.low; }
  };
  struct SameName {
    using is_transparent = void;
    const std::vector<Entry>* entries;
    bool operator()(uint32_t a, uint32_t b) const { return a == b; }
    bool operator()(uint32_t a, const Hash128& b) const { return (*entries)[a].hash == b; }
    bool operator()(const Hash128& a, uint32_t b) const { return (*entries)[b].hash == a; }
  };

  Hash128 DomainOf(const Hash128& domain) const;
  Hash128 Root(const Hash128& domain) const;
  std::vector<uint32_t> Walk(const Hash128& domain, std::span<const TokenId> tokens) const;
  uint32_t Find(const Hash128& hash, const Hash128& domain, uint32_t parent,
                std::span<const TokenId> tokens) const;
  uint32_t Add(const Hash128& hash, const Hash128& domain, uint32_t parent,
               std::span<const TokenId> tokens);
  void Unlink(PipelineId pipeline, BlockId block);
  int32_t OwnedBlock(uint32_t entry, PipelineId pipeline) const;
  Node& NodeOf(Owner owner) { return pipelines_[owner.pipeline][owner.block]; }
  const Node& NodeOf(Owner owner) const { return pipelines_[owner.pipeline][owner.block]; }

  const KvDirectoryOptions options_;
  const Hash128 model_;  // names the model, its type and the block size

  std::vector<Entry> entries_;   // some of them spare
  std::vector<TokenId> tokens_;  // [entries, block_size]
  std::vector<uint32_t> spare_;
  absl::flat_hash_set<uint32_t, HashOf, SameName> index_;
  std::vector<std::vector<Node>> pipelines_;  // [pipeline][block]; empty: not open
  int64_t open_blocks_ = 0;                   // of all pipelines
  int64_t published_ = 0;
};

}  // namespace tutti::coordinator
