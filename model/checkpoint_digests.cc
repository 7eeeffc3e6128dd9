#include "model/checkpoint_digests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/json_document.h"
#include "model/shard_chunks.h"

namespace tutti::model {
namespace {

constexpr int kNamedTensorsMax = 4;

// The first chunk of `wanted` that `read` lacks; none: count is 0. Both joined.
ChunkRange FirstMissing(const std::vector<ChunkRange>& wanted,
                        const std::vector<ChunkRange>& read) {
  size_t at = 0;
  for (const ChunkRange& range : wanted) {
    const auto before = [&](const ChunkRange& other) {
      return std::pair(other.file, other.first + other.count) <= std::pair(range.file, range.first);
    };
    while (at < read.size() && before(read[at])) ++at;
    const bool begins =
        at < read.size() && read[at].file == range.file && read[at].first <= range.first;
    if (!begins) return {range.file, range.first, 1};
    const int64_t end = read[at].first + read[at].count;
    if (end < range.first + range.count) return {range.file, end, 1};
  }
  return {};
}

}  // namespace

CheckpointDigests::CheckpointDigests(std::shared_ptr<const Checkpoint> checkpoint,
                                     std::vector<std::string> digests)
    : checkpoint_(std::move(checkpoint)), digests_(std::move(digests)) {
  CHECK(digests_.size() == checkpoint_->files().size());
  for (size_t i = 0; i < digests_.size(); ++i) {
    const int64_t chunks = ChunkCount(checkpoint_->files()[i].bytes());
    CHECK(static_cast<int64_t>(digests_[i].size()) == chunks * kChunkDigestBytes);
  }
}

std::string_view CheckpointDigests::Of(int32_t file, int64_t chunk) const {
  return std::string_view(digests_[static_cast<size_t>(file)])
      .substr(static_cast<size_t>(chunk * kChunkDigestBytes), kChunkDigestBytes);
}

int32_t CheckpointDigests::FileOf(const std::string& name) const {
  const std::vector<Checkpoint::File>& files = checkpoint_->files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const Checkpoint::File& file) { return file.name == name; });
  return found == files.end() ? -1 : static_cast<int32_t>(found - files.begin());
}

absl::Status CheckpointDigests::Compare(const ModelConfig& config, const StageShare& share,
                                        int ranks, int rank, std::span<const ChunkRun> runs) const {
  std::vector<ChunkRange> read;
  for (const ChunkRun& run : runs) {
    TUTTI_RETURN_IF_ERROR(CheckRun(run));
    read.push_back({FileOf(run.file), run.first_chunk, run.chunks()});
  }
  TUTTI_RETURN_IF_ERROR(CompareRuns(runs));
  return CheckComplete(ShardChunks(*checkpoint_, config, share, ranks, rank),
                       JoinChunks(std::move(read)));
}

absl::Status CheckpointDigests::CheckRun(const ChunkRun& run) const {
  const int32_t file = FileOf(run.file);
  const std::string name = absl::CHexEscape(run.file.substr(0, kCheckpointFileNameBytesMax));
  if (file < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it read a file \"", name, "\", which our checkpoint does not have"));
  }
  const int64_t chunks = ChunkCount(checkpoint_->files()[static_cast<size_t>(file)].bytes());
  const bool whole = run.digests.size() % kChunkDigestBytes == 0;
  if (whole && run.first_chunk >= 0 && run.first_chunk <= chunks &&
      run.chunks() <= chunks - run.first_chunk) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("it says that it read chunks from ", run.first_chunk, " on of ", name, ", ",
                   run.digests.size(), " bytes of digests; the file has ", chunks, " chunks"));
}

absl::Status CheckpointDigests::CheckComplete(const std::vector<ChunkRange>& wanted,
                                              const std::vector<ChunkRange>& read) const {
  const ChunkRange missing = FirstMissing(wanted, read);
  if (missing.count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it does not say what it read of ", checkpoint_->files()[missing.file].name,
                   " from byte ", missing.first * kDigestChunkBytes, " on, which its shard needs"));
}

absl::Status CheckpointDigests::CompareRuns(std::span<const ChunkRun> runs) const {
  int64_t compared = 0;
  int64_t differing = 0;
  int32_t file = -1;
  int64_t chunk = 0;
  std::string theirs;
  for (const ChunkRun& run : runs) {
    const int32_t number = FileOf(run.file);
    for (int64_t i = 0; i < run.chunks(); ++i, ++compared) {
      const std::string_view digest =
          std::string_view(run.digests)
              .substr(static_cast<size_t>(i * kChunkDigestBytes), kChunkDigestBytes);
      if (digest == Of(number, run.first_chunk + i)) continue;
      if (differing++ > 0) continue;
      file = number;
      chunk = run.first_chunk + i;
      theirs = DigestText(digest);
    }
  }
  if (differing == 0) return absl::OkStatus();
  const Checkpoint::File& named = checkpoint_->files()[static_cast<size_t>(file)];
  const int64_t begin = chunk * kDigestChunkBytes;
  const int64_t end = std::min(begin + kDigestChunkBytes, named.bytes());
  return absl::DataLossError(absl::StrCat(
      "it read other bytes than the coordinator has: ", named.name, ", bytes ", begin, " to ",
      end - 1, ", in ", TensorsIn(file, begin, end), ": digest ", theirs, " there, ",
      DigestText(Of(file, chunk)), " here (", differing, " of ", compared,
      " chunks differ); compare sha256sum of the file on both machines and copy it anew to the one "
      "that is wrong"));
}

std::string CheckpointDigests::TensorsIn(int32_t file, int64_t begin, int64_t end) const {
  const std::vector<TensorInfo>& all = checkpoint_->tensors();
  auto at = std::partition_point(all.begin(), all.end(), [&](const TensorInfo& tensor) {
    return std::pair(tensor.file, tensor.offset + tensor.bytes) <= std::pair(file, begin);
  });
  std::string names;
  int count = 0;
  for (; at != all.end() && at->file == file && at->offset < end; ++at) {
    if (++count <= kNamedTensorsMax)
      absl::StrAppend(&names, count == 1 ? "" : ", ", Quoted(at->name));
  }
  if (count == 0) return "the header";
  if (count > kNamedTensorsMax) absl::StrAppend(&names, " and ", count - kNamedTensorsMax, " more");
  return absl::StrCat(count == 1 ? "tensor " : "tensors ", names);
}

}  // namespace tutti::model
