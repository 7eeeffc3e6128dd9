#include "model/digest_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "model/chunk_digest.h"
#include "program/machine.h"

namespace tutti::model {
namespace {

// Chunks that a thread takes at a time.
constexpr int64_t kPieceChunks = 64;
// Workers that load on the same machine go first, without starving us.
constexpr int kNiceness = 10;

int Threads(int wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(CpuCount() / 4, 1, kDigestThreadsMax);
}

int64_t NanosecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

DigestRun::DigestRun(std::shared_ptr<const Checkpoint> checkpoint, DigestOptions options,
                     DigestCallbacks callbacks)
    : checkpoint_(std::move(checkpoint)),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      digests_(checkpoint_->files().size()),
      hashed_(checkpoint_->files().size()),
      settled_(checkpoint_->files().size()) {
  for (const Checkpoint::File& file : checkpoint_->files()) total_bytes_ += file.bytes();
  thread_ = StartThread("the digests of the checkpoint", [this] { Run(); });
}

DigestRun::~DigestRun() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

void DigestRun::Run() {
  const auto begin = std::chrono::steady_clock::now();
  TakeFromCache();
  const int64_t cached = done_bytes_.load();
  absl::Status status = TryOnce();
  while (!status.ok() && !stop_) {
    callbacks_.on_failure(status);
    if (!Pause()) break;
    status = TryOnce();
  }
  if (save_) Save();
  if (!status.ok() || stop_) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  callbacks_.on_known(std::make_shared<CheckpointDigests>(checkpoint_, std::move(digests_)),
                      total_bytes_ - cached, took.count());
}

bool DigestRun::Pause() {
  const auto until = std::chrono::steady_clock::now() + options_.retry_after;
  MutexLock lock(&mutex_);
  while (!stop_ && stopped_.WaitUntil(&mutex_, until)) {
  }
  return !stop_;
}

void DigestRun::TakeFromCache() {
  for (const std::string& path : options_.cache_paths) {
    const absl::StatusOr<DigestCache> cache = ReadDigestCache(path);
    if (!cache.ok()) continue;  // hashing anew is always right
    for (size_t i = 0; i < digests_.size(); ++i) {
      const Checkpoint::File& file = checkpoint_->files()[i];
      const auto found = cache->find(file.name);
      if (!digests_[i].empty() || found == cache->end()) continue;
      if (found->second.identity != file.identity) continue;
      digests_[i] = found->second.digests;
      hashed_[i] = file.identity;
      settled_[i] = true;
      done_bytes_ += file.bytes();
    }
  }
}

absl::Status DigestRun::TryOnce() {
  for (size_t i = 0; i < digests_.size(); ++i) {
    const Checkpoint::File& file = checkpoint_->files()[i];
    if (!digests_[i].empty() || file.bytes() == 0) continue;
    const std::string path = checkpoint_->PathOf(static_cast<int32_t>(i));
    TUTTI_ASSIGN_OR_RETURN(const CheckpointFile open,
                           CheckpointFile::OpenUnchanged(path, file.identity));
    hashed_[i] = open.identity();
    const int64_t changed = std::max(hashed_[i].modified_ns, hashed_[i].changed_ns);
    settled_[i] = NanosecondsSince1970() - changed >= options_.settled_ns;
    const int64_t chunks = ChunkCount(file.bytes());
    digests_[i].resize(static_cast<size_t>(chunks * kChunkDigestBytes));
    std::vector<Piece> pieces;
    for (int64_t first = 0; first < chunks; first += kPieceChunks) {
      pieces.push_back({static_cast<int32_t>(i), first, std::min(kPieceChunks, chunks - first)});
    }
    const int64_t done_before = done_bytes_.load();
    absl::Status status = HashFiles(std::move(pieces));
    if (status.ok()) status = CheckUnchanged(path, hashed_[i]);
    if (!status.ok()) {
      digests_[i].clear();
      done_bytes_ = done_before;
      return status;
    }
    save_ = true;
  }
  return absl::OkStatus();
}

absl::Status DigestRun::HashFiles(std::vector<Piece> pieces) {
  std::atomic<size_t> next{0};
  const int count = std::min(Threads(options_.threads), static_cast<int>(pieces.size()));
  std::vector<absl::Status> results(static_cast<size_t>(count));
  std::atomic<bool> failed{false};
  const auto work = [&](absl::Status* result) {
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    std::vector<std::byte> bytes(kDigestChunkBytes);
    for (size_t i = next++; i < pieces.size() && !failed; i = next++) {
      *result = HashPiece(pieces[i], &bytes);
      if (!result->ok()) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < results.size(); ++i) {
    auto thread = TryStartThread("the digests of the checkpoint", [&, i] { work(&results[i]); });
    if (!thread.ok()) break;
    threads.push_back(*std::move(thread));
  }
  if (!results.empty()) work(results.data());
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) TUTTI_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::Status DigestRun::HashPiece(const Piece& piece, std::vector<std::byte>* bytes) {
  const auto number = static_cast<size_t>(piece.file);
  TUTTI_ASSIGN_OR_RETURN(const CheckpointFile file,
                         CheckpointFile::OpenUnchanged(checkpoint_->PathOf(piece.file),
                                                       checkpoint_->files()[number].identity));
  file.Prefetch(piece.first_chunk * kDigestChunkBytes, piece.chunks * kDigestChunkBytes);
  for (int64_t chunk = piece.first_chunk; chunk < piece.first_chunk + piece.chunks; ++chunk) {
    if (stop_) return absl::CancelledError("the coordinator stops");
    const int64_t begin = chunk * kDigestChunkBytes;
    const std::span<std::byte> read(
        bytes->data(),
        static_cast<size_t>(std::min(kDigestChunkBytes, file.identity().bytes - begin)));
    TUTTI_RETURN_IF_ERROR(file.Read(begin, read));
    const ChunkDigest digest = DigestOf(read);
    std::copy(digest.begin(), digest.end(),
              digests_[number].begin() + static_cast<ptrdiff_t>(chunk * kChunkDigestBytes));
    done_bytes_ += static_cast<int64_t>(read.size());
    TellProgress();
  }
  return absl::OkStatus();
}

// Each of the threads may be the first to reach a percent.
void DigestRun::TellProgress() {
  const auto percent = static_cast<int>(100.0 * static_cast<double>(done_bytes_) /
                                        static_cast<double>(total_bytes_));
  int told = told_percent_;
  while (percent > told) {
    if (told_percent_.compare_exchange_weak(told, percent)) return callbacks_.on_progress(percent);
  }
}

void DigestRun::Save() {
  if (total_bytes_ < options_.cached_bytes_min) return;
  DigestCache cache;
  for (size_t i = 0; i < digests_.size(); ++i) {
    if (digests_[i].empty() || !settled_[i]) continue;
    cache[checkpoint_->files()[i].name] = {hashed_[i], digests_[i]};
  }
  if (cache.empty()) return;
  // A place that cannot be written to costs the time of hashing at the next start.
  for (const std::string& path : options_.cache_paths) {
    if (WriteDigestCache(path, cache).ok()) return;
  }
}

}  // namespace tutti::model
