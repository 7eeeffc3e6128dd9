#include "worker/fetch/shard_fetch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "model/checkpoint.h"
#include "model/checkpoint_index.h"
#include "model/config_json.h"
#include "model/limits.h"
#include "model/partition.h"
#include "model/quantised_roles.h"
#include "model/quantised_tensors.h"
#include "model/shard_chunks.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"
#include "worker/shard_config.h"

namespace tutti::worker {
namespace {

using model::ChunkCount;
using model::ChunkRange;
using model::kChunkDigestBytes;

constexpr char kIndex[] = "model.safetensors.index.json";

std::string_view BytesOf(const model::ChunkDigest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Payloads come as a few pieces.
std::vector<std::byte> Joined(const transport::Payload& payload) {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(payload.size()));
  for (const auto& piece : payload.chunks) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

}  // namespace

// Counts what comes, and tells now and then.
class ShardFetch::Meter {
 public:
  Meter(const Clock* clock, int64_t all_bytes, const FetchCallback& tell)
      : clock_(clock), tell_(tell), progress_{.all_bytes = all_bytes}, told_at_(clock->Now()) {
    if (tell_) tell_(progress_);
  }

  void Add(int64_t bytes) {
    progress_.fetched_bytes += bytes;
    const Duration since = clock_->Now() - told_at_;
    if (since < kFetchTellInterval && progress_.fetched_bytes < progress_.all_bytes) return;
    const double seconds = std::max(Seconds(since), 1e-3);
    progress_.bytes_per_second =
        static_cast<double>(progress_.fetched_bytes - told_bytes_) / seconds;
    told_at_ += since;
    told_bytes_ = progress_.fetched_bytes;
    if (tell_) tell_(progress_);
  }

 private:
  const Clock* const clock_;
  const FetchCallback& tell_;
  FetchProgress progress_;
  Instant told_at_;
  int64_t told_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<ShardFetch>> ShardFetch::Open(const std::string& cache_dir,
                                                             WeightsTalk::Options talk,
                                                             const KeepOn& keep_on) {
  std::unique_ptr<ShardFetch> fetch(new ShardFetch(std::move(talk)));
  TUTTI_RETURN_IF_ERROR(fetch->FetchConfig(cache_dir, keep_on));
  fetch->talk_.HangUp();
  return fetch;
}

absl::Status ShardFetch::FetchConfig(const std::string& cache_dir, const KeepOn& keep_on) {
  TUTTI_ASSIGN_OR_RETURN(const v1::CheckpointFiles about, AskFiles(keep_on));
  TUTTI_ASSIGN_OR_RETURN(cache_, CheckpointCache::Open(cache_dir, about));
  fingerprint_ = about.model_fingerprint();
  std::vector<ChunkRange> texts, headers;
  for (int32_t i = 0; i < static_cast<int32_t>(cache_->files().size()); ++i) {
    const CheckpointCache::File& file = cache_->files()[static_cast<size_t>(i)];
    if (file.header_bytes == 0) texts.push_back({i, 0, ChunkCount(file.bytes)});
    if (file.header_bytes > 0) headers.push_back(HeaderOf(i));
  }
  TUTTI_RETURN_IF_ERROR(MakeThere(texts, Duration::max(), nullptr, keep_on));
  absl::StatusOr<model::ModelConfig> config = model::LoadModelConfig(folder());
  if (!config.ok()) {
    // A configuration that does not say its type is asked of the tensors.
    TUTTI_RETURN_IF_ERROR(MakeThere(headers, Duration::max(), nullptr, keep_on));
    config = model::LoadModelConfig(folder());
  }
  TUTTI_RETURN_IF_ERROR(config.status());
  config_ = *std::move(config);
  return absl::OkStatus();
}

absl::StatusOr<v1::CheckpointFiles> ShardFetch::AskFiles(const KeepOn& keep_on) {
  v1::CheckpointFiles files;
  WeightsTalk::Exchange exchange;
  exchange.count = 1;
  exchange.question = [](size_t) {
    v1::Frame frame;
    frame.mutable_files_wanted();
    return frame;
  };
  exchange.take = [&](size_t,
                      const WeightsLink::Answer& answer) -> absl::StatusOr<WeightsTalk::Taken> {
    if (!answer.frame.has_checkpoint_files()) {
      return absl::InvalidArgumentError("the coordinator did not say which files there are");
    }
    files = answer.frame.checkpoint_files();
    return WeightsTalk::Taken::kYes;
  };
  TUTTI_RETURN_IF_ERROR(talk_.Run(exchange, Duration::max(), keep_on));
  return files;
}

ChunkRange ShardFetch::HeaderOf(int32_t file) const {
  return {file, 0, ChunkCount(cache_->files()[static_cast<size_t>(file)].header_bytes)};
}

absl::Status ShardFetch::Fetch(const v1::AssignShard& shard, const FetchCallback& tell,
                               const KeepOn& keep_on) {
  model::ModelConfig config = config_;
  TUTTI_RETURN_IF_ERROR(ApplyShard(shard, &config));
  const model::StageShare share = {.first_layer = shard.first_layer(),
                                   .num_layers = shard.num_layers(),
                                   .has_embedding = shard.has_embedding(),
                                   .has_head = shard.has_head()};
  TUTTI_RETURN_IF_ERROR(model::CheckRankShape(config, shard.num_ranks()));
  TUTTI_RETURN_IF_ERROR(model::CheckStageShare(config, share));
  std::vector<std::string> tensors;
  for (const model::WeightSpec& spec : model::ListWeights(config, share)) {
    tensors.push_back(spec.name);
    if (config.quant.empty() || config.quantise.has_value() || spec.shape.size() < 2) continue;
    const auto names = model::QuantisedNames(model::QuantPrefix(spec.name));
    tensors.insert(tensors.end(), names.begin(), names.end());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int32_t> files, FilesOf(tensors));
  std::vector<ChunkRange> chunks;
  for (const int32_t file : files) chunks.push_back(HeaderOf(file));
  TUTTI_RETURN_IF_ERROR(MakeThere(chunks, kFetchPatience, tell, keep_on));
  TUTTI_ASSIGN_OR_RETURN(chunks,
                         ChunksOfShard(config, share, tensors, shard.num_ranks(), shard.rank()));
  TUTTI_RETURN_IF_ERROR(MakeThere(chunks, kFetchPatience, tell, keep_on));
  talk_.HangUp();
  return absl::OkStatus();
}

// The cache's files that hold any of these tensors, or, with a single file of weights, that.
absl::StatusOr<std::vector<int32_t>> ShardFetch::FilesOf(
    const std::vector<std::string>& tensors) const {
  std::vector<int32_t> files;
  if (cache_->Find(kIndex) < 0) {
    for (int32_t i = 0; i < static_cast<int32_t>(cache_->files().size()); ++i) {
      if (cache_->files()[static_cast<size_t>(i)].header_bytes > 0) files.push_back(i);
    }
    return files;
  }
  TUTTI_ASSIGN_OR_RETURN(const model::ShardMap shards,
                         model::LoadCheckpointIndex(absl::StrCat(folder(), "/", kIndex)));
  const std::set<std::string> wanted(tensors.begin(), tensors.end());
  for (const auto& [name, held] : shards) {
    const bool needed = std::any_of(held.begin(), held.end(), [&](const std::string& tensor) {
      return wanted.contains(tensor);
    });
    if (!needed) continue;
    const int32_t file = cache_->Find(name);
    if (file < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the coordinator offers no file ", name, ", which its index names"));
    }
    files.push_back(file);
  }
  return files;
}

absl::StatusOr<std::vector<ChunkRange>> ShardFetch::ChunksOfShard(
    const model::ModelConfig& config, const model::StageShare& share,
    const std::vector<std::string>& tensors, int ranks, int rank) const {
  TUTTI_ASSIGN_OR_RETURN(const auto checkpoint, model::Checkpoint::OpenFor(folder(), tensors));
  model::ModelConfig found = config;
  if (!config.quantise.has_value()) {
    TUTTI_RETURN_IF_ERROR(model::FindQuantisedRoles(*checkpoint, &found));
  }
  std::vector<ChunkRange> chunks = model::ShardChunks(*checkpoint, found, share, ranks, rank);
  for (ChunkRange& range : chunks) {
    range.file = cache_->Find(checkpoint->files()[static_cast<size_t>(range.file)].name);
    if (range.file < 0) return absl::InvalidArgumentError("a file that was not offered");
  }
  return chunks;
}

absl::Status ShardFetch::MakeThere(const std::vector<ChunkRange>& chunks, Duration patience,
                                   const FetchCallback& tell, const KeepOn& keep_on) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<Wanted> wanted, AskDigests(chunks, patience, keep_on));
  TUTTI_ASSIGN_OR_RETURN(wanted, Missing(std::move(wanted), keep_on));
  if (wanted.empty()) return absl::OkStatus();
  int64_t bytes = 0;
  for (const Wanted& each : wanted) bytes += cache_->BytesOf(each.file, each.chunk);
  TUTTI_RETURN_IF_ERROR(cache_->CheckRoom(bytes));
  if (tell) {
    spdlog::info("fetching {} of the checkpoint from the coordinator at {}", FormatBytes(bytes),
                 talk_.address());
  }
  const Instant begin = clock_->Now();
  Meter meter(clock_, bytes, tell);
  TUTTI_RETURN_IF_ERROR(FetchAll(&wanted, patience, &meter, keep_on));
  if (tell) {
    spdlog::info("fetched {} in {:.1f} s", FormatBytes(bytes), Seconds(clock_->Now() - begin));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShardFetch::Wanted>> ShardFetch::AskDigests(
    const std::vector<ChunkRange>& chunks, Duration patience, const KeepOn& keep_on) {
  std::vector<ChunkRange> asked;
  for (const ChunkRange& range : chunks) {
    for (int64_t at = 0; at < range.count; at += kDigestsWanted) {
      asked.push_back({range.file, range.first + at, std::min(kDigestsWanted, range.count - at)});
    }
  }
  std::vector<Wanted> wanted;
  WeightsTalk::Exchange exchange;
  exchange.count = asked.size();
  exchange.question = [&](size_t number) {
    v1::Frame frame;
    v1::DigestsWanted* const question = frame.mutable_digests_wanted();
    question->set_file(cache_->files()[static_cast<size_t>(asked[number].file)].name);
    question->set_first_chunk(asked[number].first);
    question->set_chunks(asked[number].count);
    return frame;
  };
  exchange.take = [&](size_t number,
                      const WeightsLink::Answer& answer) -> absl::StatusOr<WeightsTalk::Taken> {
    const ChunkRange& range = asked[number];
    const v1::ChunkDigests& told = answer.frame.chunk_digests();
    if (told.file() != cache_->files()[static_cast<size_t>(range.file)].name ||
        told.first_chunk() != range.first ||
        static_cast<int64_t>(told.digests().size()) != range.count * kChunkDigestBytes) {
      return absl::InvalidArgumentError("the coordinator did not tell the digests asked for");
    }
    for (int64_t i = 0; i < range.count; ++i) {
      const auto at = static_cast<size_t>(i * kChunkDigestBytes);
      wanted.push_back({.file = range.file,
                        .chunk = range.first + i,
                        .digest = told.digests().substr(at, kChunkDigestBytes)});
    }
    return WeightsTalk::Taken::kYes;
  };
  TUTTI_RETURN_IF_ERROR(talk_.Run(exchange, patience, keep_on));
  return wanted;
}

absl::StatusOr<std::vector<ShardFetch::Wanted>> ShardFetch::Missing(std::vector<Wanted> wanted,
                                                                    const KeepOn& keep_on) {
  std::vector<Wanted> missing;
  int64_t damaged_chunks = 0;
  for (Wanted& each : wanted) {
    TUTTI_RETURN_IF_ERROR(keep_on());
    bool damaged = false;
    TUTTI_ASSIGN_OR_RETURN(const bool there,
                           cache_->Has(each.file, each.chunk, each.digest, &damaged));
    damaged_chunks += damaged ? 1 : 0;
    if (!there) missing.push_back(std::move(each));
  }
  if (damaged_chunks > 0) {
    spdlog::warn("{} has {} chunks with other bytes than the coordinator's; they are fetched again",
                 folder(), damaged_chunks);
  }
  return missing;
}

absl::Status ShardFetch::FetchAll(std::vector<Wanted>* wanted, Duration patience, Meter* meter,
                                  const KeepOn& keep_on) {
  WeightsTalk::Exchange exchange;
  exchange.count = wanted->size();
  exchange.question = [&](size_t number) {
    const Wanted& each = (*wanted)[number];
    v1::Frame frame;
    v1::FileChunkWanted* const question = frame.mutable_file_chunk_wanted();
    question->set_file(cache_->files()[static_cast<size_t>(each.file)].name);
    question->set_chunk(each.chunk);
    return frame;
  };
  exchange.take = [&](size_t number, const WeightsLink::Answer& answer) {
    return TakeChunk(answer, &(*wanted)[number], meter);
  };
  return talk_.Run(exchange, patience, keep_on);
}

absl::StatusOr<WeightsTalk::Taken> ShardFetch::TakeChunk(const WeightsLink::Answer& answer,
                                                         Wanted* wanted, Meter* meter) {
  const std::string& name = cache_->files()[static_cast<size_t>(wanted->file)].name;
  const int64_t bytes = cache_->BytesOf(wanted->file, wanted->chunk);
  const v1::FileChunk& told = answer.frame.file_chunk();
  if (told.file() != name || told.chunk() != wanted->chunk || answer.payload.size() != bytes) {
    return absl::InvalidArgumentError("the coordinator did not send the chunk asked for");
  }
  const std::vector<std::byte> chunk = Joined(answer.payload);
  const model::ChunkDigest digest = model::DigestOf(chunk);
  if (BytesOf(digest) == wanted->digest) {
    TUTTI_RETURN_IF_ERROR(cache_->Put(wanted->file, wanted->chunk, chunk));
    fetched_bytes_ += static_cast<uint64_t>(bytes);
    meter->Add(bytes);
    return WeightsTalk::Taken::kYes;
  }
  ++wrong_chunks_;
  const int64_t begin = wanted->chunk * model::kDigestChunkBytes;
  const std::string what = absl::StrCat(
      name, ", bytes ", begin, " to ", begin + bytes - 1, ", came from the coordinator at ",
      talk_.address(), " with digest ", model::DigestText(BytesOf(digest)), ", and has ",
      model::DigestText(wanted->digest), " there: changed on the way");
  if (++wanted->tries < kFetchTries) {
    spdlog::warn("{}; asking again", what);
    return WeightsTalk::Taken::kAskAgain;
  }
  return absl::DataLossError(
      absl::StrCat(what, ", ", kFetchTries, " times; look at the network between, or use TLS"));
}

}  // namespace tutti::worker
