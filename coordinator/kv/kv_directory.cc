#include "coordinator/kv/kv_directory.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/fail_point.h"

namespace tutti::coordinator {
namespace {

// Lengths in front, so that no two models give the same bytes.
Hash128 NameOfModel(const KvDirectoryOptions& options) {
  return HashBytes(options.key,
                   absl::StrCat(options.model_fingerprint.size(), " ", options.model_fingerprint,
                                options.dtype.size(), " ", options.dtype, options.block_size));
}

}  // namespace

KvDirectory::KvDirectory(const KvDirectoryOptions& options)
    : options_(options),
      model_(NameOfModel(options)),
      index_(0, HashOf{&entries_}, SameName{&entries_}) {
  CHECK(options.block_size > 0);
}

// ---- pipelines

void KvDirectory::OpenPipeline(PipelineId pipeline, int32_t num_blocks) {
  if (pipelines_.size() <= pipeline.value()) pipelines_.resize(pipeline.value() + 1);
  std::vector<Node>& nodes = pipelines_[pipeline.value()];
  CHECK(nodes.empty() && num_blocks > 0) << "pipeline " << pipeline;
  nodes.resize(num_blocks);
  // A block holds at most one prefix: no table grows while requests wait.
  open_blocks_ += num_blocks;
  entries_.reserve(open_blocks_);
  tokens_.reserve(open_blocks_ * options_.block_size);
  index_.reserve(open_blocks_);
}

void KvDirectory::ClosePipeline(PipelineId pipeline) {
  std::vector<Node>& nodes = pipelines_[pipeline.value()];
  CHECK(!nodes.empty()) << "pipeline " << pipeline;
  for (size_t block = 0; block < nodes.size(); ++block) {
    if (nodes[block].entry != kNone) Unlink(pipeline, BlockId(static_cast<int32_t>(block)));
  }
  open_blocks_ -= static_cast<int64_t>(nodes.size());
  nodes = {};
}

// ---- content

void KvDirectory::Publish(PipelineId pipeline, const Hash128& domain, std::optional<BlockId> parent,
                          BlockId block, std::span<const TokenId> tokens) {
  CHECK(static_cast<int32_t>(tokens.size()) == options_.block_size);
  const Owner owner{pipeline.value(), block.value()};
  Node& node = NodeOf(owner);
  CHECK(node.entry == kNone) << "block " << block << " is published twice";
  uint32_t before = kNone;
  if (parent.has_value()) {
    Node& parent_node = NodeOf({pipeline.value(), parent->value()});
    before = parent_node.entry;
    CHECK(before != kNone) << "block " << *parent << " is not published";
    ++parent_node.children;
    node.parent = parent->value();
  }
  const Hash128 hash =
      HashBlock(options_.key, before == kNone ? Root(domain) : entries_[before].hash, tokens);
  const Hash128 checked_domain = DomainOf(domain);
  const auto found = index_.find(hash);
  if (found == index_.end()) {
    node.entry = Add(hash, checked_domain, before, tokens);
  } else {
    node.entry = *found;
    CHECK(Find(hash, checked_domain, before, tokens) == node.entry) << "two prefixes of one name";
  }
  Entry& entry = entries_[node.entry];
  node.next = entry.first_owner;
  if (node.next.block >= 0) NodeOf(node.next).previous = owner;
  entry.first_owner = owner;
  ++entry.owners;
  ++published_;
}

void KvDirectory::Forget(PipelineId pipeline, BlockId block) {
  const Node& node = NodeOf({pipeline.value(), block.value()});
  CHECK(node.entry != kNone) << "block " << block << " is not published";
  CHECK(node.children == 0) << "block " << block << " goes before the " << node.children
                            << " after it";
  if (node.parent >= 0) --NodeOf({pipeline.value(), node.parent}).children;
  Unlink(pipeline, block);
}

void KvDirectory::Unlink(PipelineId pipeline, BlockId block) {
  Node& node = NodeOf({pipeline.value(), block.value()});
  Entry& entry = entries_[node.entry];
  (node.previous.block >= 0 ? NodeOf(node.previous).next : entry.first_owner) = node.next;
  if (node.next.block >= 0) NodeOf(node.next).previous = node.previous;
  if (--entry.owners == 0) {
    index_.erase(node.entry);
    spare_.push_back(node.entry);
  }
  node = {};
  --published_;
}

uint32_t KvDirectory::Add(const Hash128& hash, const Hash128& domain, uint32_t parent,
                          std::span<const TokenId> tokens) {
  uint32_t number = static_cast<uint32_t>(entries_.size());
  if (spare_.empty()) {
    entries_.emplace_back();
    tokens_.resize(tokens_.size() + tokens.size());
  } else {
    number = spare_.back();
    spare_.pop_back();
  }
  entries_[number] = {.hash = hash, .domain = domain, .parent = parent};
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t{number} * options_.block_size);
  index_.insert(number);
  return number;
}

// ---- lookup

Hash128 KvDirectory::DomainOf(const Hash128& domain) const {
  return TUTTI_FAIL_POINT("coordinator.hash_without_tenant") ? Hash128() : domain;
}

Hash128 KvDirectory::Root(const Hash128& domain) const {
  const Hash128 checked = DomainOf(domain);
  const auto part = [](uint64_t word, int shift) { return static_cast<TokenId>(word >> shift); };
  const std::array<TokenId, 4> words = {part(checked.low, 0), part(checked.low, 32),
                                        part(checked.high, 0), part(checked.high, 32)};
  return HashBlock(options_.key, model_, words);
}

// The entry of that name, if it is really that prefix.
uint32_t KvDirectory::Find(const Hash128& hash, const Hash128& domain, uint32_t parent,
                           std::span<const TokenId> tokens) const {
  const auto found = index_.find(hash);
  if (found == index_.end()) return kNone;
  const Entry& entry = entries_[*found];
  const bool same = entry.domain == domain && entry.parent == parent &&
                    std::equal(tokens.begin(), tokens.end(),
                               tokens_.begin() + int64_t{*found} * options_.block_size);
  return same ? *found : kNone;
}

// The entries of the longest prefix that any pipeline holds.
std::vector<uint32_t> KvDirectory::Walk(const Hash128& domain,
                                        std::span<const TokenId> tokens) const {
  std::vector<uint32_t> path;
  const Hash128 checked_domain = DomainOf(domain);
  Hash128 hash = Root(domain);
  uint32_t parent = kNone;
  const size_t size = options_.block_size;
  for (size_t first = 0; first + size <= tokens.size(); first += size) {
    const std::span<const TokenId> block = tokens.subspan(first, size);
    hash = HashBlock(options_.key, hash, block);
    parent = Find(hash, checked_domain, parent, block);
    if (parent == kNone) break;
    path.push_back(parent);
  }
  return path;
}

// A block of the pipeline that holds the entry, or -1.
int32_t KvDirectory::OwnedBlock(uint32_t entry, PipelineId pipeline) const {
  Owner owner = entries_[entry].first_owner;
  while (owner.block >= 0 && owner.pipeline != pipeline.value()) owner = NodeOf(owner).next;
  return owner.block;
}

std::vector<BlockId> KvDirectory::Lookup(const Hash128& domain, std::span<const TokenId> tokens,
                                         PipelineId pipeline) const {
  const std::vector<uint32_t> path = Walk(domain, tokens);
  // A pipeline that holds a block holds all before it, so the end of its part can be searched
  // by halves: a prefix may be long, and on a thousand pipelines.
  const auto end = std::partition_point(
      path.begin(), path.end(), [&](uint32_t entry) { return OwnedBlock(entry, pipeline) >= 0; });
  std::vector<BlockId> blocks(end - path.begin());
  if (blocks.empty()) return blocks;
  int32_t block = OwnedBlock(*std::prev(end), pipeline);
  for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
    CHECK(block >= 0) << "a prefix without its head on pipeline " << pipeline;
    *at = BlockId(block);
    block = NodeOf({pipeline.value(), block}).parent;
  }
  return blocks;
}

std::vector<KvDirectory::Match> KvDirectory::LongestPerPipeline(
    const Hash128& domain, std::span<const TokenId> tokens) const {
  const std::vector<uint32_t> path = Walk(domain, tokens);
  std::vector<int32_t> held(pipelines_.size(), 0);  // tokens
  // From the end: a pipeline that holds the end holds all. Where an entry has as many owners as are
  // known already, there is no new one.
  int32_t known = 0;
  for (size_t i = path.size(); i > 0; --i) {
    const Entry& entry = entries_[path[i - 1]];
    if (entry.owners == known) continue;
    for (Owner owner = entry.first_owner; owner.block >= 0; owner = NodeOf(owner).next) {
      if (held[owner.pipeline] > 0) continue;
      held[owner.pipeline] = static_cast<int32_t>(i) * options_.block_size;
      ++known;
    }
  }
  std::vector<Match> matches;
  for (size_t pipeline = 0; pipeline < held.size(); ++pipeline) {
    if (held[pipeline] == 0) continue;
    matches.push_back({PipelineId(static_cast<uint32_t>(pipeline)), held[pipeline]});
  }
  return matches;
}

int64_t KvDirectory::memory_bytes() const {
  size_t bytes = entries_.capacity() * sizeof(Entry) + spare_.capacity() * sizeof(uint32_t) +
                 index_.capacity() * (sizeof(uint32_t) + 1);
  for (const std::vector<Node>& nodes : pipelines_) bytes += nodes.capacity() * sizeof(Node);
  return static_cast<int64_t>(bytes);
}

}  // namespace tutti::coordinator
