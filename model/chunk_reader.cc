#include "model/chunk_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/json_document.h"

namespace tutti::model {
namespace {

// Copies what [begin, begin + bytes.size()) of the file has of the slice, which is `first` bytes
// into the file.
void CopyRows(const TensorSlice& slice, int64_t first, int64_t begin,
              std::span<const std::byte> bytes, std::byte* out) {
  const int64_t end = begin + static_cast<int64_t>(bytes.size());
  const int64_t skipped = std::max<int64_t>(begin - first, 0);
  for (int64_t row = skipped / slice.stride; row < slice.rows; ++row) {
    const int64_t row_begin = first + row * slice.stride;
    if (row_begin >= end) return;
    const int64_t from = std::max(row_begin, begin);
    const int64_t to = std::min(row_begin + slice.row_bytes, end);
    if (from >= to) continue;
    std::memcpy(out + row * slice.row_bytes + (from - row_begin), bytes.data() + (from - begin),
                static_cast<size_t>(to - from));
  }
}

// Rows without gaps are one row.
TensorSlice Joined(TensorSlice slice) {
  if (slice.rows <= 1 || slice.stride == slice.row_bytes) {
    slice.row_bytes *= slice.rows;
    slice.stride = slice.row_bytes;
    slice.rows = 1;
  }
  return slice;
}

int64_t SpanOf(const TensorSlice& slice) {
  return slice.bytes() == 0 ? 0 : (slice.rows - 1) * slice.stride + slice.row_bytes;
}

}  // namespace

ChunkRange ChunksOf(const TensorInfo& tensor, const TensorSlice& slice) {
  ChunkRange range{.file = tensor.file};
  const int64_t begin = tensor.offset + slice.begin;
  if (SpanOf(slice) == 0) return range;
  range.first = begin / kDigestChunkBytes;
  range.count = (begin + SpanOf(slice) - 1) / kDigestChunkBytes - range.first + 1;
  return range;
}

ChunkReader::ChunkReader(const Checkpoint* checkpoint, std::shared_ptr<EdgeChunks> edges)
    : checkpoint_(checkpoint), files_(checkpoint->files().size()), edges_(std::move(edges)) {}

absl::Status ChunkReader::Read(const TensorInfo& tensor, const TensorSlice& slice, std::byte* out,
                               std::atomic<int64_t>* bytes_read) {
  const ChunkRange chunks = ChunksOf(tensor, slice);
  if (chunks.count == 0) return absl::OkStatus();
  CHECK(slice.begin >= 0 && slice.begin + SpanOf(slice) <= tensor.bytes) << tensor.name;
  const TensorSlice rows = Joined(slice);
  const int64_t begin = tensor.offset + rows.begin;
  const int64_t end = begin + SpanOf(rows);
  absl::Status status = Select(tensor.file);
  if (status.ok()) open_.Prefetch(begin, end - begin);
  for (int64_t chunk = chunks.first; status.ok() && chunk < chunks.first + chunks.count; ++chunk) {
    const int64_t chunk_begin = chunk * kDigestChunkBytes;
    const int64_t bytes = BytesOfChunk(tensor.file, chunk);
    if (bytes_read != nullptr) bytes_read->fetch_add(bytes, std::memory_order_relaxed);
    if (rows.rows == 1 && chunk_begin >= begin && chunk_begin + bytes <= end) {
      status = ReadChunk(chunk, {out + (chunk_begin - begin), static_cast<size_t>(bytes)});
      continue;
    }
    status = edges_->With(
        tensor.file, chunk,
        [&](std::vector<std::byte>* edge) {
          edge->resize(static_cast<size_t>(bytes));
          return ReadChunk(chunk, *edge);
        },
        [&](std::span<const std::byte> edge) { CopyRows(rows, begin, chunk_begin, edge, out); });
  }
  return Annotate(status, absl::StrCat("reading tensor ", Quoted(tensor.name)));
}

absl::Status ChunkReader::Select(int32_t file) {
  if (open_number_ == file) return absl::OkStatus();
  const FileIdentity& seen = checkpoint_->files()[static_cast<size_t>(file)].identity;
  TUTTI_ASSIGN_OR_RETURN(open_, CheckpointFile::OpenUnchanged(checkpoint_->PathOf(file), seen));
  open_number_ = file;
  Expand(file);
  return absl::OkStatus();
}

void ChunkReader::Expand(int32_t file) {
  const int64_t bytes = checkpoint_->files()[static_cast<size_t>(file)].bytes();
  const auto chunks = static_cast<size_t>(ChunkCount(bytes));
  files_[static_cast<size_t>(file)].digests.resize(chunks * kChunkDigestBytes);
  files_[static_cast<size_t>(file)].seen.resize(chunks);
}

int64_t ChunkReader::BytesOfChunk(int32_t file, int64_t chunk) const {
  const int64_t bytes = checkpoint_->files()[static_cast<size_t>(file)].bytes();
  return std::min(kDigestChunkBytes, bytes - chunk * kDigestChunkBytes);
}

absl::Status ChunkReader::ReadChunk(int64_t chunk, std::span<std::byte> out) {
  TUTTI_RETURN_IF_ERROR(open_.Read(chunk * kDigestChunkBytes, out));
  const ChunkDigest digest = DigestOf(out);
  return Note(open_number_, chunk, reinterpret_cast<const char*>(digest.data()));
}

absl::Status ChunkReader::Note(int32_t file, int64_t chunk, const char* digest) {
  FileDigests& known = files_[static_cast<size_t>(file)];
  char* const kept = known.digests.data() + chunk * kChunkDigestBytes;
  const bool seen = known.seen[static_cast<size_t>(chunk)];
  if (seen && std::memcmp(kept, digest, kChunkDigestBytes) != 0) {
    const int64_t begin = chunk * kDigestChunkBytes;
    return absl::FailedPreconditionError(absl::StrCat(checkpoint_->PathOf(file), ": bytes ", begin,
                                                      " to ", begin + BytesOfChunk(file, chunk) - 1,
                                                      " changed while the file was read"));
  }
  std::memcpy(kept, digest, kChunkDigestBytes);
  known.seen[static_cast<size_t>(chunk)] = true;
  return absl::OkStatus();
}

absl::Status ChunkReader::Merge(const ChunkReader& other) {
  for (size_t i = 0; i < other.files_.size(); ++i) {
    const FileDigests& theirs = other.files_[i];
    const auto file = static_cast<int32_t>(i);
    if (!theirs.seen.empty()) Expand(file);
    for (size_t chunk = 0; chunk < theirs.seen.size(); ++chunk) {
      if (!theirs.seen[chunk]) continue;
      TUTTI_RETURN_IF_ERROR(Note(file, static_cast<int64_t>(chunk),
                                 theirs.digests.data() + chunk * kChunkDigestBytes));
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkReader::CheckUnchanged() const {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].seen.empty()) continue;
    TUTTI_RETURN_IF_ERROR(model::CheckUnchanged(checkpoint_->PathOf(static_cast<int32_t>(i)),
                                                checkpoint_->files()[i].identity));
  }
  return absl::OkStatus();
}

std::vector<ChunkRun> ChunkReader::Report() const {
  std::vector<ChunkRun> runs;
  for (size_t i = 0; i < files_.size(); ++i) {
    const FileDigests& file = files_[i];
    for (size_t chunk = 0; chunk < file.seen.size(); ++chunk) {
      if (!file.seen[chunk]) continue;
      if (chunk == 0 || !file.seen[chunk - 1]) {
        runs.push_back({.file = checkpoint_->files()[i].name,
                        .first_chunk = static_cast<int64_t>(chunk),
                        .digests = {}});
      }
      runs.back().digests.append(file.digests, chunk * kChunkDigestBytes, kChunkDigestBytes);
    }
  }
  return runs;
}

absl::Status CheckReport(const std::vector<ChunkRange>& chunks, const Checkpoint& checkpoint) {
  int64_t count = 0;
  int64_t bytes = 0;
  for (const ChunkRange& range : chunks) {
    const std::string& name = checkpoint.files()[static_cast<size_t>(range.file)].name;
    count += range.count;
    bytes += static_cast<int64_t>(name.size()) + kReportedRunOverheadBytes +
             range.count * kChunkDigestBytes;
  }
  if (bytes <= kReportBytesMax && static_cast<int64_t>(chunks.size()) <= kReportedRunsMax) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the shard is read from ", count, " chunks of 1 MiB in ", chunks.size(),
      " pieces of the checkpoint; one worker can report ", kReportBytesMax / kChunkDigestBytes,
      " chunks in ", kReportedRunsMax, " pieces at most: use more stages or ranks"));
}

}  // namespace tutti::model
